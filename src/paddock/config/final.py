"""From merged sources to a final config: directives, free variables, and every check that needs no plugin.

Checks  top-level keys; the form of each instance; its implementation exists; each `{type, name}` names an instance of
        that type, wherever in a block it is; `agent_map` names agents. All problems are raised together.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from paddock.config.aliases import AliasTable
from paddock.config.directives import expand
from paddock.config.environments import move_environment_keys
from paddock.config.one_step import choose_one_step
from paddock.config.plugins import check_exists
from paddock.config.problems import is_typo, raise_all, suggestion
from paddock.config.references import bad_references, references
from paddock.config.rules import TranslationReport, apply_rules
from paddock.config.settings import KINDS, Instance, Note, RunSettings
from paddock.config.translation import TranslatedBlock
from paddock.config.trees import KeyPath, dotted, merge
from paddock.config.validation import explain
from paddock.config.variables import gather_variables
from paddock.errors import ConfigError
from paddock.types import JsonObject


@dataclass
class Composition:
    """The merged sources, before they are checked."""

    tree: JsonObject = field(default_factory=dict)
    """In our names; unresolved."""
    recipe_keys: JsonObject = field(default_factory=dict)
    """A recipe's keys beside `env.nemo_gym`, which only interpolations may read."""
    notes: list[Note] = field(default_factory=list)
    origins: dict[KeyPath, str] = field(default_factory=dict)
    """Where each key was given (`file:line`); of a mapping, where first."""
    blocks: list[TranslatedBlock] = field(default_factory=list)
    """Blocks that were written with NeMo-Gym's names."""
    nemo_gym_keys: set[str] = field(default_factory=set)
    """Top-level keys that a source with NeMo-Gym's names gave."""
    has_nemo_gym_names: bool = False

    def origin(self, path: KeyPath) -> str:
        """Where the key, or the nearest one above it, was given."""
        origins = (self.origins[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.origins)
        return next(origins, "config")


@dataclass(frozen=True)
class FinalConfig:
    """A checked config."""

    tree: JsonObject
    instances: dict[str, Instance]
    notes: list[Note]
    origin: Callable[[KeyPath], str]
    """Where a key was given."""


def finalize(composed: Composition, table: AliasTable, servers: Collection[str] | None = None) -> FinalConfig:
    """Carry out directives, gather variables, check everything. `servers`: check only their references and those of
    what they need; None: of all instances."""
    owners = _agents_with_environment(composed, table)
    move_environment_keys(composed.tree, composed.origins, table, owners)
    composed.tree = expand(composed.tree)
    problems = list(_apply_rules_again(composed, table))
    move_environment_keys(composed.tree, composed.origins, table, owners)
    for agent in choose_one_step(composed.tree, composed.blocks, table):
        composed.notes.append(agent.note(composed.origin(agent.path)))
    _add_defaults(composed, table)
    instances, free = _split(composed)
    problems += gather_variables(composed.tree, free & composed.nemo_gym_keys, composed.recipe_keys)
    problems += _unknown_keys(composed, free)
    problems += _settings_problems(composed)
    valid: dict[str, Instance] = {}
    for name in instances:
        try:
            valid[name] = _instance(name, composed, table)
        except ConfigError as error:
            problems.append(error.message)
    for instance in _used_instances(valid, composed.tree, servers):
        block = composed.tree[instance.name][instance.kind][instance.implementation]
        where = (instance.name, instance.kind, instance.implementation)
        problems += (
            f"{composed.origin(path)}: {text}" for path, text in bad_references(block, where, valid, instances)
        )
    problems += _bad_agent_map(composed.tree, valid)
    raise_all(problems)
    return FinalConfig(composed.tree, valid, composed.notes, composed.origin)


def _used_instances(
    instances: dict[str, Instance], tree: JsonObject, servers: Collection[str] | None
) -> Iterator[Instance]:
    """`servers` and what they reference, directly or not, as far as it exists; None: all."""
    pending = list(instances if servers is None else servers)
    seen: set[str] = set()
    while pending:
        name = pending.pop(0)
        if name in seen or name not in instances:
            continue
        seen.add(name)
        instance = instances[name]
        yield instance
        pending += (reference.name for reference in references(tree[name][instance.kind][instance.implementation], ()))


def _nemo_gym_blocks(composed: Composition) -> Iterator[tuple[TranslatedBlock, JsonObject]]:
    """Each block that was written with NeMo-Gym's names, and the mapping that holds its fields."""
    for block in dict.fromkeys(composed.blocks):
        below = composed.tree.get(block.instance)
        holder = below.get(block.kind) if isinstance(below, dict) else None
        if isinstance(holder, dict) and isinstance(holder.get(block.implementation), dict):
            yield block, holder


def _apply_rules_again(composed: Composition, table: AliasTable) -> Iterator[str]:
    """Translate the keys that a directive has brought into a block with NeMo-Gym's names."""
    for block, holder in _nemo_gym_blocks(composed):
        path = (block.instance, block.kind, block.implementation)
        report = TranslationReport(composed.origin(path), {})
        rules = table.rules(block.kind, block.written)
        holder[block.implementation] = apply_rules(holder[block.implementation], rules, path, report)
        composed.notes += (note for note in report.notes if note not in composed.notes)
        yield from report.problems


def _add_defaults(composed: Composition, table: AliasTable) -> None:
    """Fill in what a NeMo-Gym implementation does by default."""
    for block, holder in _nemo_gym_blocks(composed):
        implementation = table.implementation(block.kind, block.written)
        if implementation is not None:
            holder[block.implementation] = merge(implementation.defaults, holder[block.implementation])


def _agents_with_environment(composed: Composition, table: AliasTable) -> list[str]:
    """Instances whose NeMo-Gym implementation has its environment inside."""
    implementations = ((block, table.implementation(block.kind, block.written)) for block in composed.blocks)
    return [block.instance for block, alias in implementations if alias is not None and alias.environment is not None]


def _split(composed: Composition) -> tuple[list[str], set[str]]:
    """Names of instances, and the other top-level keys that are no settings."""
    instances: list[str] = []
    free: set[str] = set()
    for key, value in composed.tree.items():
        if key in RunSettings.model_fields:
            continue
        if isinstance(value, dict) and _looks_like_instance(value):
            instances.append(key)
        else:
            free.add(key)
    return instances, free


def _looks_like_instance(value: JsonObject) -> bool:
    """Has a server type, or one key that is nearly one."""
    return any(key in KINDS for key in value) or (len(value) == 1 and is_typo(next(iter(value)), KINDS))


def _unknown_keys(composed: Composition, free: set[str]) -> Iterator[str]:
    """An error for each free key that did not become a variable."""
    for key in sorted(free & set(composed.tree)):
        hint = suggestion(key, RunSettings.model_fields)
        yield (
            f"{composed.origin((key,))}: unknown top-level key `{key}`{hint}; "
            "an instance needs a server type below its name, a variable belongs under `vars`"
        )


def _settings_problems(composed: Composition) -> list[str]:
    """What is wrong with the settings' own values."""
    own = {key: value for key, value in composed.tree.items() if key in RunSettings.model_fields}
    try:
        RunSettings.model_validate(own)
    except ValidationError as error:
        return [f"{composed.origin(path)}: {text}" for path, text in explain(error, RunSettings, own, ())]
    return []


def _instance(name: str, composed: Composition, table: AliasTable) -> Instance:
    """The instance `name`; ConfigError where it has not the form `name: type: implementation: fields`."""
    value = composed.tree[name]
    where = composed.origin((name,))
    for key in value:
        if key not in KINDS:
            hint = suggestion(key, KINDS)
            raise ConfigError(f"{where}: `{name}.{key}`: unknown server type{hint}", kind="config_invalid")
    kind = _only(value, (name,), "server type", composed)
    below = value[kind]
    if not isinstance(below, dict):
        raise ConfigError(f"{where}: `{name}.{kind}`: needs `implementation: fields`", kind="config_invalid")
    implementation = _only(below, (name, kind), "implementation", composed)
    path = (name, kind, implementation)
    if below[implementation] is None:
        below[implementation] = {}
    if not isinstance(below[implementation], dict):
        raise ConfigError(
            f"{composed.origin(path)}: `{dotted(path)}`: needs a mapping of fields", kind="config_invalid"
        )
    try:
        check_exists(implementation, kind, also=table.implementations.get(kind, ()))
    except ConfigError as error:
        raise ConfigError(f"{composed.origin(path)}: `{dotted(path)}`: {error.message}", kind=error.kind) from error
    return Instance(name, next(literal for literal in KINDS if literal == kind), implementation, where)


def _only(value: JsonObject, path: KeyPath, what: str, composed: Composition) -> str:
    """The one key of `value`."""
    if len(value) == 1:
        return next(iter(value))
    have = ", ".join(f"`{key}` ({composed.origin((*path, key))})" for key in value) or "none"
    raise ConfigError(
        f"{composed.origin(path)}: `{dotted(path)}`: needs exactly one {what}, has {have}; "
        f"remove the other, on the command line as `~{dotted(path)}.NAME`",
        kind="config_invalid",
    )


def _bad_agent_map(tree: JsonObject, instances: dict[str, Instance]) -> Iterator[str]:
    agent_map: Any = tree.get("agent_map")
    agents = [name for name, instance in instances.items() if instance.kind == "agents"]
    for row_name, ours in agent_map.items() if isinstance(agent_map, dict) else ():
        if isinstance(ours, str) and "${" not in ours and ours not in agents:
            yield f"`agent_map.{row_name}`: no agent `{ours}`{suggestion(ours, agents, label='agents')}"
