"""From merged sources to a config that can be used: directives, free variables, and every check that needs no plugin.

Checks  top-level keys; the form of each instance; its implementation exists; each `{type, name}` names an instance of
        that type, wherever in a block it is; `agent_map` names agents. All problems are raised together.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from paddock.config.aliases import AliasTable
from paddock.config.checking import explain
from paddock.config.directives import expand
from paddock.config.environments import settle
from paddock.config.plugins import check_exists
from paddock.config.problems import nearly, raise_all, suggestion
from paddock.config.references import bad_references, references
from paddock.config.rules import Report, apply_rules
from paddock.config.settings import KINDS, Instance, Note, RunSettings
from paddock.config.translation import Block
from paddock.config.trees import KeyPath, dotted, merge
from paddock.config.variables import gather_variables
from paddock.errors import ConfigError
from paddock.types import JsonObject


@dataclass
class Composed:
    """What the sources came to."""

    tree: JsonObject = field(default_factory=dict)
    """In our names; unresolved."""
    aside: JsonObject = field(default_factory=dict)
    """Keys of recipes that only interpolations may read."""
    notes: list[Note] = field(default_factory=list)
    origins: dict[KeyPath, str] = field(default_factory=dict)
    """Where each key was given; for a mapping, first."""
    blocks: list[Block] = field(default_factory=list)
    """Blocks that were written with their names."""
    theirs: set[str] = field(default_factory=set)
    """Top-level keys that a source of theirs gave."""
    any_theirs: bool = False

    def origin(self, path: KeyPath) -> str:
        """Where the key, or the nearest one above it, was given."""
        found = (self.origins[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.origins)
        return next(found, "config")


@dataclass(frozen=True)
class Finished:
    """A checked config."""

    tree: JsonObject
    instances: dict[str, Instance]
    notes: list[Note]
    origin: Callable[[KeyPath], str]
    """Where a key was given."""


def finish(composed: Composed, table: AliasTable, servers: Collection[str] | None = None) -> Finished:
    """Carry out directives, gather variables, check; references only of `servers` and what they need, if given."""
    owners = _owners(composed, table)
    settle(composed.tree, composed.origins, table, owners)
    composed.tree = expand(composed.tree)
    problems = list(_apply_rules_again(composed, table))
    settle(composed.tree, composed.origins, table, owners)
    _add_defaults(composed, table)
    instances, free = _split(composed)
    problems += gather_variables(composed.tree, free & composed.theirs, composed.aside)
    problems += _unknown_keys(composed, free)
    problems += _settings_problems(composed)
    found: dict[str, Instance] = {}
    for name in instances:
        try:
            found[name] = _instance(name, composed, table)
        except ConfigError as error:
            problems.append(error.message)
    for instance in _used(found, composed.tree, servers):
        block = composed.tree[instance.name][instance.kind][instance.implementation]
        where = (instance.name, instance.kind, instance.implementation)
        problems += (
            f"{composed.origin(path)}: {text}" for path, text in bad_references(block, where, found, instances)
        )
    problems += _bad_agent_map(composed.tree, found)
    raise_all(problems)
    return Finished(composed.tree, found, composed.notes, composed.origin)


def _used(found: dict[str, Instance], tree: JsonObject, servers: Collection[str] | None) -> Iterator[Instance]:
    """`servers` and what they reference, directly or not, as far as it exists; None: all."""
    pending = list(found if servers is None else servers)
    seen: set[str] = set()
    while pending:
        name = pending.pop(0)
        if name in seen or name not in found:
            continue
        seen.add(name)
        instance = found[name]
        yield instance
        pending += (reference.name for reference in references(tree[name][instance.kind][instance.implementation], ()))


def _blocks_of_theirs(composed: Composed) -> Iterator[tuple[Block, JsonObject]]:
    """Each block that was written with their names, and the mapping that holds its fields."""
    for block in dict.fromkeys(composed.blocks):
        below = composed.tree.get(block.instance)
        holder = below.get(block.kind) if isinstance(below, dict) else None
        if isinstance(holder, dict) and isinstance(holder.get(block.implementation), dict):
            yield block, holder


def _apply_rules_again(composed: Composed, table: AliasTable) -> Iterator[str]:
    """A directive may have brought keys of theirs into a block of theirs."""
    for block, holder in _blocks_of_theirs(composed):
        path = (block.instance, block.kind, block.implementation)
        report = Report(composed.origin(path), {})
        rules = table.rules(block.kind, block.written)
        holder[block.implementation] = apply_rules(holder[block.implementation], rules, path, report)
        composed.notes += (note for note in report.notes if note not in composed.notes)
        yield from report.problems


def _add_defaults(composed: Composed, table: AliasTable) -> None:
    """What an implementation of theirs does where nothing is said."""
    for block, holder in _blocks_of_theirs(composed):
        found = table.implementation(block.kind, block.written)
        if found is not None:
            holder[block.implementation] = merge(found.defaults, holder[block.implementation])


def _owners(composed: Composed, table: AliasTable) -> list[str]:
    """Instances that have their environment inside in their names."""
    implementations = ((block, table.implementation(block.kind, block.written)) for block in composed.blocks)
    return [block.instance for block, found in implementations if found is not None and found.environment is not None]


def _split(composed: Composed) -> tuple[list[str], set[str]]:
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
    return any(key in KINDS for key in value) or (len(value) == 1 and nearly(next(iter(value)), KINDS))


def _unknown_keys(composed: Composed, free: set[str]) -> Iterator[str]:
    """Free keys that did not become variables."""
    for key in sorted(free & set(composed.tree)):
        known = suggestion(key, RunSettings.model_fields)
        yield (
            f"{composed.origin((key,))}: unknown top-level key `{key}`{known}; "
            "an instance needs a server type below its name, a variable belongs under `vars`"
        )


def _settings_problems(composed: Composed) -> list[str]:
    """What is wrong with the settings' own values."""
    own = {key: value for key, value in composed.tree.items() if key in RunSettings.model_fields}
    try:
        RunSettings.model_validate(own)
    except ValidationError as error:
        return [f"{composed.origin(path)}: {text}" for path, text in explain(error, RunSettings, own, ())]
    return []


def _instance(name: str, composed: Composed, table: AliasTable) -> Instance:
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
    return Instance(name, next(known for known in KINDS if known == kind), implementation, where)


def _only(value: JsonObject, path: KeyPath, what: str, composed: Composed) -> str:
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
    mapped: Any = tree.get("agent_map")
    agents = [name for name, instance in instances.items() if instance.kind == "agents"]
    for theirs, ours in mapped.items() if isinstance(mapped, dict) else ():
        if isinstance(ours, str) and "${" not in ours and ours not in agents:
            yield f"`agent_map.{theirs}`: no agent `{ours}`{suggestion(ours, agents, label='agents')}"
