"""An agent of NeMo-Gym's that runs tools, in front of an environment that judges the call itself: one step here.

Source  `Implementation.one_step` of the alias table, and `JUDGES_STEP` of the resources server's class.
Law     decided by what the named server is, not by its name; where its class can't be loaded, nothing is changed.
"""

from contextlib import suppress
from typing import Any, NamedTuple

from paddock.config.aliases import AliasTable
from paddock.config.plugins import resolve_class
from paddock.config.settings import Note
from paddock.config.translation import TranslatedBlock
from paddock.config.trees import KeyPath, dotted, merge
from paddock.errors import ConfigError
from paddock.types import JsonObject

AGENTS = "agents"
SERVERS = "resources_servers"


class StepAgent(NamedTuple):
    """An agent's block that became one of a single step."""

    written: KeyPath
    """With NeMo-Gym's name."""
    path: KeyPath
    environment: str
    """The implementation of its resources server."""

    def note(self, where: str) -> Note:
        text = f"`{dotted(self.path)}`: `{self.environment}` judges the call itself and runs no tool"
        return Note(where, dotted(self.written), "mapped", text)


def choose_one_step(tree: JsonObject, blocks: list[TranslatedBlock], table: AliasTable) -> list[StepAgent]:
    """Change `tree` where a block of `blocks` is an agent in front of such an environment; what was changed."""
    changed = []
    for block in dict.fromkeys(blocks):
        alias = table.implementation(block.kind, block.written)
        holder = _below(tree.get(block.instance), AGENTS)
        if alias is None or alias.one_step is None or not isinstance(holder.get(block.implementation), dict):
            continue
        fields = merge(holder.get(alias.one_step) or {}, holder[block.implementation])
        environment = _environment(tree, fields)
        if environment is None or not _judges_step(environment):
            continue
        del holder[block.implementation]
        dropped = {*alias.set, *alias.defaults}
        holder[alias.one_step] = {key: value for key, value in fields.items() if key not in dropped}
        written = (block.instance, AGENTS, block.written)
        changed.append(StepAgent(written, (block.instance, AGENTS, alias.one_step), environment))
    return changed


def _environment(tree: JsonObject, fields: JsonObject) -> str | None:
    """The implementation of the resources server that an agent names, as far as that is known."""
    name = _below(fields, "resources_server").get("name")
    servers = _below(tree.get(name), SERVERS) if isinstance(name, str) else {}
    return next(iter(servers)) if len(servers) == 1 else None


def _judges_step(implementation: str) -> bool:
    with suppress(ConfigError):  # said where the server is checked
        return bool(getattr(resolve_class(implementation, SERVERS), "JUDGES_STEP", False))
    return False


def _below(value: Any, key: str) -> JsonObject:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}
