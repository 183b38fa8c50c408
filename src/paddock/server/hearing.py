"""Requests as conversations, each in proportion to what it tells beyond one that was heard before.

Law     what is heard is what `conversation` reads of the whole request, and its hash is that of the whole: a history
        counts as begun before only where its canonical JSON begins with the other's (`paddock.tokens.private`). It is
        heard from a copy: what its client then does to its own items changes nothing.
Bounds  of each rollout the latest histories, in memory as long as its turns are.
"""

from typing import NamedTuple
from weakref import WeakKeyDictionary

from paddock.server.dialects import Conversation, Dialect, continued, conversation, history_key
from paddock.tokens import MAX_PATHS, Asked, Begun, TurnIndex, private, read_asked
from paddock.types import JsonObject


class _Heard(NamedTuple):
    dialect: Dialect
    begun: Begun
    told: Conversation


class Hearing:
    """Of one server's rollouts."""

    def __init__(self) -> None:
        self._heard: WeakKeyDictionary[TurnIndex, list[_Heard]] = WeakKeyDictionary()

    def asked(self, index: TurnIndex, dialect: Dialect, request: JsonObject) -> Asked:
        """What identifies a request; changes nothing."""
        known = [each.begun for each in self._heard.get(index, ()) if each.dialect == dialect]
        return read_asked(request, history_key(dialect), known)

    def hear(self, index: TurnIndex, dialect: Dialect, request: JsonObject, asked: Asked) -> Conversation:
        """`asked`: the request, as `asked` has just read it."""
        begun = asked.begun
        if begun is None:
            return conversation(dialect, request)
        heard = self._heard.setdefault(index, [])
        place = next((nth for nth, each in enumerate(heard) if each.begun is asked.earlier), None)
        told = _told(dialect, request, begun, None if place is None else heard[place])
        if place is not None:
            del heard[place]
        if told.history is not None:
            heard.append(_Heard(dialect, begun, told))
        del heard[:-MAX_PATHS]
        return told


def _told(dialect: Dialect, request: JsonObject, begun: Begun, earlier: _Heard | None) -> Conversation:
    """`earlier`: of the same dialect, with whose history this one begins."""
    if earlier is not None and earlier.begun.besides == begun.besides:
        told = continued(dialect, earlier.told, begun.history.items)
        if told is not None:
            return told
    request = {**request, history_key(dialect): begun.history.items}
    told = conversation(dialect, request, earlier=earlier.told.history if earlier else None)
    return told._replace(**private({"tools": told.tools, "arguments": told.arguments, "params": told.params}))
