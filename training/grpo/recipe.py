"""Keys of NeMo-RL's recipes: which become keys of ours, which have no effect, which are refused. Data: `recipe.yaml`.

Law     a key of a recipe that changes the loss, the mask, the advantages or the batch is a setting here, is read as
        one, or is refused: never inert, but for values by which it changes nothing. Keys without an entry are left as
        they are, for the settings to judge. Notes name keys, never values.
        Keys of a block that is read as one of ours are read as that one's, by name, but for those with entries.
Errors  problems are collected; a table of another form raises pydantic's ValidationError when it is first read.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import TypeAdapter, model_validator

from paddock.config import Note
from paddock.config.interpolation import Resolver
from paddock.config.trees import KeyPath, copy_tree, dotted, get_at, split
from paddock.config.yaml_text import read_document
from paddock.training.grpo.arguments import arguments_of
from paddock.training.grpo.compose import ConfigTree
from paddock.types import JsonObject, Record

_TABLE = Path(__file__).with_name("recipe.yaml")
_LATE: tuple[KeyPath, ...] = (("policy", "generation", "vllm"),)
"""Kept as written: variables of the environment in it are read by the servers."""
_MEGATRON: KeyPath = ("policy", "megatron_cfg")
OTHER_ALGORITHMS = {
    "sft": "fine-tuning on rollouts is `paddock sft` (docs/warm_start.md)",
    "dpo": "there is no loss on preferences: train on rewards (grpo)",
    "rm": "reward models are not trained here: a judge is a resources server of type genrm",
    "distillation": "its loss is over a teacher's whole distribution: here a teacher's log-probs of sampled tokens are "
    "advantages, by on_policy_distillation (docs/warm_start.md)",
}
"""Blocks of NeMo-RL that make a recipe one of another algorithm, and what there is in its place."""
_EXTRA_ARGS: KeyPath = ("policy", "generation", "vllm", "launch", "extra_args")


class RecipeRule(Record):
    """What becomes of one key: exactly one of the first five fields is set."""

    to: str | None = None
    argument: str | None = None
    inert: str | None = None
    disabled: str | None = None
    refused: str | None = None
    times: str | None = None
    """Of `to`: a key of the recipe by whose number the value is multiplied, where it is given."""
    values: dict[str, Any] | None = None
    """Of `to`: our value for each of theirs, any other is refused; None: it is the same."""
    implies: dict[str, Any] = {}
    """Of `to`: further keys of ours, and what the key makes of them."""
    only: list[Any] | None = None
    """Of `inert`: the values that have no effect; None: any."""
    backend: Literal["torch", "megatron"] | None = None
    """Of `inert`: where the policy runs on that one, while it is a setting on the other; None: on either."""
    enabled: str | None = None
    """Of `disabled`: why the block is refused when it is enabled; None: its keys have rules."""

    @model_validator(mode="after")
    def _single_action(self) -> Self:
        given = [name for name in ("to", "argument", "inert", "disabled", "refused") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"needs exactly one of to, argument, inert, disabled, refused; has {given}")
        owners = {
            "times": "to",
            "values": "to",
            "implies": "to",
            "only": "inert",
            "backend": "inert",
            "enabled": "disabled",
        }
        for name, owner in owners.items():
            if getattr(self, name) not in (None, {}) and given != [owner]:
                raise ValueError(f"`{name}` belongs to `{owner}`")
        return self


class TranslatedRecipe(NamedTuple):
    """A recipe in our keys."""

    tree: JsonObject
    """Resolved, but for what is read late."""
    notes: list[Note]
    problems: list[str]


@cache
def recipe_table() -> dict[KeyPath, RecipeRule]:
    """The table that ships with the package."""
    rules = TypeAdapter(dict[str, RecipeRule]).validate_python(read_document(_TABLE, _TABLE.name).tree)
    return {split(key): rule for key, rule in rules.items()}


def rule_for(path: KeyPath) -> RecipeRule | None:
    """The rule of the key, or of the nearest block above it that has one."""
    table = recipe_table()
    return next((table[path[:end]] for end in range(len(path), 0, -1) if path[:end] in table), None)


def in_recipes(path: KeyPath) -> bool:
    """Whether recipes have a block of that path."""
    return any(key[: len(path)] == path and len(key) > len(path) for key in recipe_table())


def recipe_keys(path: KeyPath) -> list[str]:
    """The keys that recipes have in that block."""
    depth = len(path)
    return sorted({key[depth] for key in recipe_table() if key[:depth] == path and len(key) > depth})


def other_algorithm(tree: JsonObject) -> Iterator[str]:
    """The problem of a recipe that is none of reinforcement learning."""
    for key, instead in OTHER_ALGORITHMS.items():
        if isinstance(tree.get(key), dict):
            yield f"`{key}` makes it a recipe of another algorithm: {instead}"


def translate(tree: JsonObject, composed: ConfigTree, resolver: Resolver) -> TranslatedRecipe:
    """`tree` in our keys: the part of the composed one that is not the servers'."""
    translation = _RecipeTranslation(composed, resolver)
    for key, value in tree.items():
        translation.visit((key,), value, None)
    translation.put_moved()
    return TranslatedRecipe(translation.tree, translation.notes, translation.problems)


class _PlacedRule(NamedTuple):
    """A rule, and the key or block that it stands at."""

    rule: RecipeRule
    path: KeyPath

    def is_open(self, path: KeyPath) -> bool:
        """Whether in a block `path`, at it or below, each key has a rule or a value of its own to judge."""
        return self.rule.only is not None or (self.rule.backend is None and in_recipes(path))

    def target(self, path: KeyPath) -> KeyPath:
        """The key of ours that `path`, at it or below, is read as."""
        return (*split(self.rule.to or ""), *path[len(self.path) :])


class _MovedValue(NamedTuple):
    value: Any
    source: KeyPath


class _RecipeTranslation:
    def __init__(self, composed: ConfigTree, resolver: Resolver) -> None:
        self.composed = composed
        self.resolver = resolver
        self.tree: JsonObject = {}
        self.notes: list[Note] = []
        self.problems: list[str] = []
        self.moved: dict[KeyPath, _MovedValue] = {}
        self.arguments: list[str] = []
        self.backend = "megatron" if self.enabled(_MEGATRON, _get(composed.tree, _MEGATRON, None)) else "torch"

    def rule(self, path: KeyPath) -> RecipeRule | None:
        """The rule that the table has for the key itself."""
        rule = recipe_table().get(path)
        return None if rule is None or rule.backend not in (None, self.backend) else rule

    def visit(self, path: KeyPath, node: Any, above: _PlacedRule | None) -> None:
        """`above`: the rule of a block that this key is in."""
        own = self.rule(path)
        if own is not None and own.disabled is not None and not self.enabled(path, node):
            self.note(path, "inert", own.disabled)
            return
        if own is not None and own.enabled is not None:
            self.problem(path, own.enabled)
            return
        placed = _PlacedRule(own, path) if own is not None else above
        placed = None if own is not None and own.disabled is not None else placed
        is_open = placed is None or placed.is_open(path)
        if isinstance(node, dict) and node and is_open and path not in _LATE:
            for key, value in node.items():
                self.visit((*path, key), value, placed)
        elif placed is not None:
            self.apply(placed, path, node)
        else:
            _put(self.tree, path, self.value(path, node))

    def enabled(self, path: KeyPath, node: Any) -> bool:
        return isinstance(node, dict) and "enabled" in node and bool(self.value((*path, "enabled"), node["enabled"]))

    def value(self, path: KeyPath, node: Any) -> Any:
        """The value as written where it is read late, else resolved; problems are collected."""
        plain = node == {} or any(path[: len(late)] == late for late in _LATE)
        return copy_tree(node) if plain else copy_tree(self.resolver.collect(path, self.problems))

    def apply(self, placed: _PlacedRule, path: KeyPath, node: Any) -> None:
        rule = placed.rule
        if rule.to is not None:
            self.apply_to(placed, path, node)
        elif rule.argument is not None:
            self.note(path, "mapped", f"an argument of vLLM, in `{dotted(_EXTRA_ARGS)}`")
            self.arguments += arguments_of(rule.argument, path[-1], self.value(path, node))
        elif rule.refused is not None:
            if node is not None:
                self.problem(path, rule.refused)
        elif rule.only is None:
            self.note(path, "inert", rule.inert or "")
        else:
            self.apply_inert(rule, path, self.value(path, node))

    def apply_to(self, placed: _PlacedRule, path: KeyPath, node: Any) -> None:
        target, value, values = placed.target(path), self.product(placed.rule, path, node), placed.rule.values
        if value is None and in_recipes(path):
            return  # the recipes' null in place of a block
        if values is not None and str(value) not in values:
            self.problem(path, f"{_as_yaml(value)} is not done here; accepted: {', '.join(values)}")
            return
        self.note(path, "mapped", f"`{dotted(target)}`")
        self.move(target, path, value if values is None else values[str(value)])
        for key, implied in placed.rule.implies.items():
            self.move(split(key), path, implied)

    def apply_inert(self, rule: RecipeRule, path: KeyPath, value: Any) -> None:
        assert rule.only is not None
        if any(_same(accepted, value) for accepted in rule.only):
            self.note(path, "inert", rule.inert or "")
            return
        accepted = ", ".join(map(_as_yaml, rule.only))
        self.problem(path, f"{_as_yaml(value)} is not done here: {rule.inert}; accepted: {accepted}")

    def product(self, rule: RecipeRule, path: KeyPath, node: Any) -> Any:
        """The value, multiplied as the rule says."""
        value, other = self.value(path, node), split(rule.times) if rule.times is not None else None
        if other is None or not self.composed.has(other):
            return value
        factor = self.value(other, get_at(self.composed.tree, other))
        return value * factor if isinstance(value, int) and isinstance(factor, int) else value

    def move(self, target: KeyPath, path: KeyPath, value: Any) -> None:
        """Keep the value for `target`. An override of `target` wins, and null gives way to another value; any other
        difference is a problem."""
        existing = self.existing(target)
        if target in self.composed.overridden or (value is None and existing is not None):
            return
        if existing is None:
            self.moved[target] = _MovedValue(value, path)
        elif not _same(existing.value, value):
            self.problem(path, f"is read as `{dotted(target)}`, which `{dotted(existing.source)}` gives too; keep one")

    def existing(self, target: KeyPath) -> _MovedValue | None:
        """The value that a key of ours, or a key above it that would have to be a block, has already; null is none."""
        if target in self.moved:
            return self.moved[target]
        for end in range(len(target), 0, -1):
            if self.composed.has(target[:end]):
                written = get_at(self.composed.tree, target[:end])
                is_given = written is not None and (end == len(target) or not isinstance(written, dict))
                return _MovedValue(self.value(target[:end], written), target[:end]) if is_given else None
        return None

    def put_moved(self) -> None:
        """Put what was moved into the tree."""
        for target, moved in self.moved.items():
            _put(self.tree, target, moved.value)
            self.composed.origins.setdefault(target, self.composed.origin(moved.source))
        if self.arguments:
            _put(self.tree, _EXTRA_ARGS, [*self.arguments, *_get(self.tree, _EXTRA_ARGS, [])])

    def note(self, path: KeyPath, kind: Literal["mapped", "inert"], text: str) -> None:
        self.notes.append(Note(self.composed.origin(path), dotted(path), kind, text))

    def problem(self, path: KeyPath, text: str) -> None:
        self.problems.append(f"{self.composed.origin(path)}: `{dotted(path)}`: {text}")


def _put(tree: JsonObject, path: KeyPath, value: Any) -> None:
    """Set the value, making the mappings above it where there are none."""
    node: Any = tree
    for key in path[:-1]:
        if not isinstance(node.get(key), dict):
            node[key] = {}
        node = node[key]
    node[path[-1]] = value


def _get(tree: JsonObject, path: KeyPath, default: Any) -> Any:
    try:
        return get_at(tree, path)
    except KeyError:
        return default


def _same(first: Any, second: Any) -> bool:
    """Whether two values are equal; a boolean is no number."""
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)


def _as_yaml(value: Any) -> str:
    """The value as it is written in YAML."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return "a mapping" if isinstance(value, dict) and value else str(value)
