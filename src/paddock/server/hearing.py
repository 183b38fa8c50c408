"""Requests as conversations, each in proportion to what it tells beyond one that was heard before.

Law     what is heard is what `conversation` reads of the whole request, and its hash is that of the whole: a history
        counts as begun before only where its canonical JSON begins with the other's (`paddock.tokens.private`). It is
        heard from a copy: what its client then does to its own items changes nothing.
Bounds  of each rollout the latest histories, in memory as long as its turns are.
"""

from collections.abc import Callable
from typing import NamedTuple

from paddock.server.dialects import Conversation, Dialect, continued, conversation, history_key
from paddock.tokens import MAX_PATHS, Asked, Begun, TurnIndex, private, read_asked
from paddock.types import JsonObject


class Heard(NamedTuple):
    """What a request tells."""

    told: Conversation
    root: bytes
    """Of what it tells besides its history."""


class _Begun(NamedTuple):
    """A request that another may go on from."""

    dialect: Dialect
    begun: Begun
    heard: Heard


class Hearing:
    """Of one server's rollouts. `root`: see `Heard`."""

    def __init__(self, root: Callable[[Conversation], bytes]) -> None:
        self._root = root

    def asked(self, index: TurnIndex, dialect: Dialect, request: JsonObject) -> Asked:
        """What identifies a request; changes nothing."""
        known = [each.begun for each in index.heard if each.dialect == dialect]
        return read_asked(request, history_key(dialect), known)

    def hear(self, index: TurnIndex, dialect: Dialect, request: JsonObject, asked: Asked) -> Heard:
        """`asked`: the request, as `asked` has just read it."""
        begun = asked.begun
        if begun is None:
            told = conversation(dialect, request)
            return Heard(told, self._root(told))
        known = index.heard
        place = next((nth for nth, each in enumerate(known) if each.begun is asked.earlier), None)
        heard = self._read(dialect, request, begun, None if place is None else known[place])
        if place is not None:
            del known[place]
        if heard.told.history is not None:
            known.append(_Begun(dialect, begun, heard))
        del known[:-MAX_PATHS]
        return heard

    def _read(self, dialect: Dialect, request: JsonObject, begun: Begun, earlier: _Begun | None) -> Heard:
        """`earlier`: of the same dialect, with whose history this one begins."""
        if earlier is not None and earlier.begun.besides == begun.besides:
            gone_on = continued(dialect, earlier.heard.told, begun.history.items)
            if gone_on is not None:
                return Heard(gone_on, earlier.heard.root)
        request = {**request, history_key(dialect): begun.history.items}
        told = conversation(dialect, request, earlier=earlier.heard.told.history if earlier else None)
        told = told._replace(**private({"tools": told.tools, "arguments": told.arguments, "params": told.params}))
        return Heard(told, self._root(told))
