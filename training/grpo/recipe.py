"""Keys of NeMo-RL's recipes: which become keys of ours, which say nothing here, which are refused. Data: `recipe.yaml`.

Law     a key of a recipe that changes the loss, the mask, the advantages or the batch is a setting here, is read as
        one, or is refused: never inert, but for values by which it changes nothing. Keys without an entry are left as
        they are, for the settings to judge. Notes name keys, never values.
Errors  problems are collected; a table of another form raises pydantic's ValidationError when it is first read.
"""

from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import TypeAdapter, model_validator

from paddock.config import Note
from paddock.config.late import Resolver
from paddock.config.reading import read
from paddock.config.trees import KeyPath, copied, dotted, get_at, split
from paddock.training.grpo.arguments import arguments_of
from paddock.training.grpo.composing import Composed
from paddock.types import JsonObject, Record

_TABLE = Path(__file__).with_name("recipe.yaml")
_LATE: tuple[KeyPath, ...] = (("policy", "generation", "vllm"),)
"""Kept as written: the environment in it is read by who uses it."""
_MEGATRON: KeyPath = ("policy", "megatron_cfg")
_EXTRA_ARGS: KeyPath = ("policy", "generation", "vllm", "launch", "extra_args")


class Rule(Record):
    """What becomes of one key; exactly one of the first five."""

    to: str | None = None
    argument: str | None = None
    inert: str | None = None
    disabled: str | None = None
    refused: str | None = None
    only: list[Any] | None = None
    """Of `inert`: the values that say nothing; None: any."""
    backend: Literal["torch", "megatron"] | None = None
    """Of `inert`: where the policy runs on that one, while it is a setting on the other; None: on either."""
    enabled: str | None = None
    """Of `disabled`: why the block is refused when it is enabled; None: its keys have rules."""

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        given = [name for name in ("to", "argument", "inert", "disabled", "refused") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"needs exactly one of to, argument, inert, disabled, refused; has {given}")
        for name, owner in (("only", "inert"), ("backend", "inert"), ("enabled", "disabled")):
            if getattr(self, name) is not None and given != [owner]:
                raise ValueError(f"`{name}` belongs to `{owner}`")
        return self


class Translated(NamedTuple):
    """A recipe in our keys."""

    tree: JsonObject
    """Resolved, but for what is read late."""
    notes: list[Note]
    problems: list[str]


@cache
def recipe_table() -> dict[KeyPath, Rule]:
    """The table that ships with the package."""
    rules = TypeAdapter(dict[str, Rule]).validate_python(read(_TABLE, _TABLE.name).tree)
    return {split(key): rule for key, rule in rules.items()}


def rule_for(path: KeyPath) -> Rule | None:
    """The rule of the key, or of the nearest block above it that has one."""
    table = recipe_table()
    return next((table[path[:end]] for end in range(len(path), 0, -1) if path[:end] in table), None)


def in_recipes(path: KeyPath) -> bool:
    """Whether recipes have a block of that path."""
    return any(known[: len(path)] == path and len(known) > len(path) for known in recipe_table())


def recipe_keys(path: KeyPath) -> list[str]:
    """The keys that recipes have in that block."""
    depth = len(path)
    return sorted({known[depth] for known in recipe_table() if known[:depth] == path and len(known) > depth})


def translate(tree: JsonObject, composed: Composed, resolver: Resolver) -> Translated:
    """`tree` in our keys: the part of the composed one that is not the servers'."""
    work = _Translation(composed, resolver)
    for key, value in tree.items():
        work.visit((key,), value, None)
    work.place()
    return Translated(work.tree, work.notes, work.problems)


class _Moved(NamedTuple):
    value: Any
    source: KeyPath


class _Translation:
    def __init__(self, composed: Composed, resolver: Resolver) -> None:
        self.composed = composed
        self.resolver = resolver
        self.tree: JsonObject = {}
        self.notes: list[Note] = []
        self.problems: list[str] = []
        self.moved: dict[KeyPath, _Moved] = {}
        self.arguments: list[str] = []
        self.backend = "megatron" if self.enabled(_MEGATRON, _get(composed.tree, _MEGATRON, None)) else "torch"

    def rule(self, path: KeyPath) -> Rule | None:
        """What the table says of the key itself."""
        found = recipe_table().get(path)
        return None if found is None or found.backend not in (None, self.backend) else found

    def visit(self, path: KeyPath, node: Any, above: Rule | None) -> None:
        """`above`: the rule of a block that this key is in."""
        own = self.rule(path)
        if own is not None and own.disabled is not None and not self.enabled(path, node):
            self.note(path, "inert", own.disabled)
            return
        if own is not None and own.enabled is not None:
            self.problem(path, own.enabled)
            return
        rule = None if own is not None and own.disabled is not None else own or above
        judged_by_value = rule is None or rule.only is not None
        if isinstance(node, dict) and node and judged_by_value and path not in _LATE:
            for key, value in node.items():
                self.visit((*path, key), value, rule)
        elif rule is not None:
            self.apply(rule, path, node)
        else:
            _put(self.tree, path, self.value(path, node))

    def enabled(self, path: KeyPath, node: Any) -> bool:
        return isinstance(node, dict) and "enabled" in node and bool(self.value((*path, "enabled"), node["enabled"]))

    def value(self, path: KeyPath, node: Any) -> Any:
        """As written where it is read late, else resolved; problems are collected."""
        plain = node == {} or any(path[: len(place)] == place for place in _LATE)
        return copied(node) if plain else copied(self.resolver.collect(path, self.problems))

    def apply(self, rule: Rule, path: KeyPath, node: Any) -> None:
        if rule.to is not None:
            self.note(path, "mapped", f"`{rule.to}`")
            self.move(split(rule.to), path, node)
        elif rule.argument is not None:
            self.note(path, "mapped", f"an argument of vLLM, in `{dotted(_EXTRA_ARGS)}`")
            self.arguments += arguments_of(rule.argument, path[-1], self.value(path, node))
        elif rule.refused is not None:
            if node is not None:
                self.problem(path, rule.refused)
        elif rule.only is None:
            self.note(path, "inert", rule.inert or "")
        else:
            self.judge(rule, path, self.value(path, node))

    def judge(self, rule: Rule, path: KeyPath, value: Any) -> None:
        assert rule.only is not None
        if any(_same(known, value) for known in rule.only):
            self.note(path, "inert", rule.inert or "")
            return
        accepted = ", ".join(_word(known) for known in rule.only)
        self.problem(path, f"{_word(value)} is not done here: {rule.inert}; accepted: {accepted}")

    def move(self, target: KeyPath, path: KeyPath, node: Any) -> None:
        """Keep the value for `target`. What an override says of `target` wins, and null says nothing beside another
        value; any other difference is a problem."""
        value = self.value(path, node)
        known = self.known(target)
        if target in self.composed.overridden or (value is None and known is not None):
            return
        if known is None:
            self.moved[target] = _Moved(value, path)
        elif not _same(known.value, value):
            self.problem(path, f"is read as `{dotted(target)}`, which `{dotted(known.source)}` gives too; keep one")

    def known(self, target: KeyPath) -> _Moved | None:
        """What is said already of a key of ours, or of what would have to be a block above it; null says nothing."""
        if target in self.moved:
            return self.moved[target]
        for end in range(len(target), 0, -1):
            if self.composed.given(target[:end]):
                written = get_at(self.composed.tree, target[:end])
                said = written is not None and (end == len(target) or not isinstance(written, dict))
                return _Moved(self.value(target[:end], written), target[:end]) if said else None
        return None

    def place(self) -> None:
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


def _same(known: Any, value: Any) -> bool:
    """Equal; a boolean is no number."""
    return isinstance(known, bool) == isinstance(value, bool) and bool(known == value)


def _word(value: Any) -> str:
    """As it is written in YAML."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return "a mapping" if isinstance(value, dict) and value else str(value)
