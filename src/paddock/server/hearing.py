"""Requests as conversations, each in proportion to what it tells beyond one that was heard before.

Law     what is heard is what `conversation` reads of the whole request: a history counts as begun before only where its
        canonical JSON begins with the other's, byte by byte.
Bounds  of each rollout the latest histories, in memory as long as its turns are.
"""

from typing import NamedTuple
from weakref import WeakKeyDictionary

from paddock.server.dialects import Conversation, Dialect, History, conversation
from paddock.tokens import MAX_PATHS, TurnIndex
from paddock.types import JsonObject


class _Heard(NamedTuple):
    dialect: Dialect
    canonical: bytes
    """Of its history, without the closing bracket."""
    history: History


class Hearing:
    """Of one server's rollouts."""

    def __init__(self) -> None:
        self._heard: WeakKeyDictionary[TurnIndex, list[_Heard]] = WeakKeyDictionary()

    def hear(self, index: TurnIndex, dialect: Dialect, request: JsonObject, canonical: bytes) -> Conversation:
        """`canonical`: JSON of the request's history, a list; empty where it is none."""
        if not canonical:
            return conversation(dialect, request)
        heard = self._heard.setdefault(index, [])
        begun = [
            each
            for each in heard
            if each.dialect == dialect
            and canonical.startswith(each.canonical)
            and canonical[len(each.canonical) : len(each.canonical) + 1] in (b",", b"]")
        ]
        earlier = max(begun, key=lambda each: len(each.canonical), default=None)
        told = conversation(dialect, request, earlier=earlier.history if earlier else None)
        if earlier is not None:
            heard.remove(earlier)
        if told.history is not None:
            heard.append(_Heard(dialect, canonical[:-1], told.history))
        del heard[:-MAX_PATHS]
        return told
