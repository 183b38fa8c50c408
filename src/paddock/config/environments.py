"""The environment that a NeMo-Gym agent has inside itself: here a resources server of its own, beside the agent.

Source  an agent's block, whose keys of the environment are held under `HOLDER`.
Law     they go to the server that `resources_server` names; where it names none, or another agent has the same one, to
        `<agent>_environment`, which is made, or copied from that one. So each such agent keeps its own settings.
        Interpolations that read such a key read it where it is now.
Errors  none here: a reference to no instance is refused where references are checked.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from paddock.config.aliases import HOLDER, AliasTable
from paddock.config.directives import DIRECTIVE_KEYS
from paddock.config.trees import KeyPath, as_directive, copy_tree, dotted, map_strings, merge, rewrite_references, split
from paddock.types import JsonObject

AGENTS = "agents"
SERVERS = "resources_servers"


class _Agent(NamedTuple):
    name: str
    implementation: str
    fields: JsonObject
    """The mapping in the tree itself: changes show there."""

    @property
    def environment(self) -> str | None:
        """The resources server that it names, as far as that is known."""
        reference = self.fields.get("resources_server")
        name = reference.get("name") if isinstance(reference, dict) else None
        return name if isinstance(name, str) and "${" not in name else None


def move_environment_keys(
    tree: JsonObject, origins: dict[KeyPath, str], table: AliasTable, owners: Collection[str] = ()
) -> None:
    """Move held keys to the environment that they are for, as far as it is known; changes `tree` itself. `owners`:
    agents that get an environment where they name none."""
    for agent in list(_agents(tree)):
        if agent.name in owners and "resources_server" not in agent.fields:
            _set_environment(agent, _own_environment(tree, origins, agent, table))
        target = agent.environment
        if HOLDER not in agent.fields or target is None or _implementation(tree, target) is None:
            continue
        if _is_shared(tree, agent, target):
            own = f"{agent.name}_environment"
            tree.setdefault(own, copy_tree(tree[target]))
            _set_environment(agent, own)
            target = own
        _move(tree, origins, agent, target)
    moved = map_strings(tree, lambda text: _rewrite_moved_paths(tree, text))
    tree.clear()
    tree.update(moved)


def _agents(tree: JsonObject) -> Iterator[_Agent]:
    """The agents whose blocks have no directives left."""
    for name, value in tree.items():
        below = value.get(AGENTS) if isinstance(value, dict) else None
        if not isinstance(below, dict):
            continue
        for implementation, fields in below.items():
            if isinstance(fields, dict) and not {*value, *below, *fields} & {*DIRECTIVE_KEYS}:
                yield _Agent(name, implementation, fields)


def _own_environment(tree: JsonObject, origins: dict[KeyPath, str], agent: _Agent, table: AliasTable) -> str:
    """The agent's own environment, made unless it is there."""
    implementations = table.implementations[AGENTS].values()
    kind = next(
        entry.environment for entry in implementations if entry.to == agent.implementation and entry.environment
    )
    name = f"{agent.name}_environment"
    tree.setdefault(name, {SERVERS: {kind: {}}})
    origins.setdefault((name,), origins.get((agent.name,), "config"))
    return name


def _set_environment(agent: _Agent, server: str) -> None:
    agent.fields["resources_server"] = {"type": SERVERS, "name": server}


def _is_shared(tree: JsonObject, agent: _Agent, server: str) -> bool:
    return any(other.environment == server for other in _agents(tree) if other.name != agent.name)


def _implementation(tree: JsonObject, server: str) -> str | None:
    value = tree.get(server)
    below = value.get(SERVERS) if isinstance(value, dict) else None
    return next(iter(below)) if isinstance(below, dict) and len(below) == 1 else None


def _move(tree: JsonObject, origins: dict[KeyPath, str], agent: _Agent, server: str) -> None:
    implementation = _implementation(tree, server)
    assert implementation is not None
    holder = tree[server][SERVERS]
    holder[implementation] = merge(holder[implementation] or {}, agent.fields.pop(HOLDER))
    before = (agent.name, AGENTS, agent.implementation, HOLDER)
    for path in [path for path in origins if path[: len(before)] == before]:
        origins[(server, SERVERS, implementation, *path[len(before) :])] = origins.pop(path)


def _rewrite_moved_paths(tree: JsonObject, text: str) -> str:
    directive = as_directive(text)
    if directive is not None:
        return "${" + f"{directive.verb}:{dotted(_current_path(tree, split(directive.path)))}" + "}"
    return rewrite_references(text, lambda path: _current_path(tree, path))


def _current_path(tree: JsonObject, path: Sequence[str]) -> KeyPath:
    """Where a key is now that was at `path` in an agent's block."""
    if len(path) > 3 and path[1] == AGENTS and path[3] == HOLDER:
        agent: Any = next((agent for agent in _agents(tree) if agent.name == path[0]), None)
        server = agent.environment if agent is not None and HOLDER not in agent.fields else None
        implementation = _implementation(tree, server) if server is not None else None
        if server is not None and implementation is not None:
            return (server, SERVERS, implementation, *path[4:])
    return tuple(path)
