"""JSON bodies that tell a list again and again, each time with more: only what is new is parsed.

Law     what is read is what `orjson` reads of the whole body. A body goes on from an earlier one of the same client
        where its bytes begin with the other's, up to the end of the list's last item; those are not parsed again.
        Objects are shared between the bodies that tell them, and are not to be changed (`FixedList`).
Bounds  `MAX_BODIES` of each client (its conversations), `max_bytes` of all. A client whose bodies do not go on from one
        another is not followed after `MAX_MISSES` of them: where a list's items end is found out by Python's own
        scanner, which takes longer than `orjson`.
Errors  JSONDecodeError of `orjson`.
"""

import json
import re
import secrets
from collections import OrderedDict
from typing import Any, NamedTuple

import orjson

from paddock.types import FixedList

MAX_BODIES = 8
MAX_MISSES = 3
ENTRY_BYTES = 1024
"""Memory that a client without bodies takes, roughly."""
OBJECTS_PER_BYTE = 3
"""Memory that a body takes with its objects, per byte, roughly."""
_LIST = f"list-{secrets.token_hex(8)}"
"""Stands for the key of the list where its rest is parsed: no body has such a key."""
_SPACE = re.compile(r"[ \t\n\r]*")
_UNREADABLE = (ValueError, IndexError, RecursionError)
_scan = json.JSONDecoder().raw_decode


class _Begun(NamedTuple):
    data: bytes
    """Of a body, up to the end of the last item."""
    before: dict[str, Any]
    """Of its keys, those that stand before the list."""
    items: list[Any]


class _Client:
    """Bodies of one client, the latest last."""

    def __init__(self) -> None:
        self.begun: list[_Begun] = []
        self.misses = 0
        """Bodies since the last one that went on from another."""

    @property
    def bytes(self) -> int:
        return ENTRY_BYTES + OBJECTS_PER_BYTE * sum(len(each.data) for each in self.begun)


class GrowingBodies:
    """Of one server."""

    def __init__(self, *, max_bytes: int = 64 << 20) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._clients: OrderedDict[tuple[str, str], _Client] = OrderedDict()

    def __len__(self) -> int:
        """Clients that are followed."""
        return len(self._clients)

    def read(self, client: str, key: str, body: bytes) -> Any:
        """The body's JSON. `key`: of the list, in the object that a body is."""
        known = self._clients.pop((client, key), None)
        if known is None:
            known = _Client()
        else:
            self._bytes -= known.bytes
        self._clients[client, key] = known
        try:
            return _read(known, key, body)
        finally:
            self._bytes += known.bytes
            while self._bytes > self._max_bytes:
                self._bytes -= self._clients.popitem(last=False)[1].bytes


def _read(known: _Client, key: str, body: bytes) -> Any:
    earlier = max((each for each in known.begun if body.startswith(each.data)), key=_length, default=None)
    went_on = None if earlier is None else _went_on(earlier, key, body)
    if went_on is not None:
        known.misses = 0
        known.begun = [*(each for each in known.begun if each is not earlier), went_on.begun]
        return went_on.wire
    wire = orjson.loads(body)
    known.misses += 1
    if isinstance(wire, dict) and isinstance(wire.get(key), list):
        wire[key] = FixedList(wire[key])
        begun = _begun(key, body, wire[key]) if known.misses <= MAX_MISSES else None
        if begun is not None:
            known.begun = [*known.begun, begun][-MAX_BODIES:]
    return wire


class _WentOn(NamedTuple):
    wire: dict[str, Any]
    begun: _Begun


def _went_on(earlier: _Begun, key: str, body: bytes) -> _WentOn | None:
    """None: the whole has to be parsed."""
    try:
        text = body[len(earlier.data) :].decode()
        place = _after_space(text, 0)
        more = text[place] == ","
        if not more and text[place] != "]":
            return None  # a number goes on
        found = orjson.loads(f'{{"{_LIST}":[{text[place + more :]}')
        new = found.pop(_LIST)
        if key in found or bool(new) != more:
            return None
        end = _items_end(text, place + 1) if more else 0
    except _UNREADABLE:
        return None
    items = [*earlier.items, *new]
    data = body[: len(earlier.data) + len(text[:end].encode())] if more else earlier.data
    return _WentOn({**earlier.before, key: FixedList(items), **found}, _Begun(data, earlier.before, items))


def _begun(key: str, body: bytes, items: list[Any]) -> _Begun | None:
    """Of a body whose list `orjson` reads as `items`; None: nothing can go on from it."""
    try:
        text = body.decode()
        behind = _after_space(text, 0) + 1
        while True:
            place = _after_space(text, behind)
            name, end = _scan(text, place)
            value = _after_space(text, _after_space(text, end) + 1)
            if name == key:
                break
            behind = _after_space(text, _scan(text, value)[1]) + 1
        if text[value] != "[":
            return None
        end = _items_end(text, value + 1)
        before = orjson.loads(f'{text[:place]}"{_LIST}":0}}')
        del before[_LIST]
        if orjson.dumps(orjson.loads(f"{text[value:end]}]")) != orjson.dumps(items):
            return None  # its key stands there once more
        return _Begun(text[:end].encode(), before, [*items])
    except _UNREADABLE:
        return None


def _items_end(text: str, start: int) -> int:
    """The end of a list's last item; one begins at `start`."""
    while True:
        _, end = _scan(text, _after_space(text, start))
        start = _after_space(text, end)
        if text[start] != ",":
            return end
        start += 1


def _after_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    assert found is not None  # it matches everywhere
    return found.end()


def _length(begun: _Begun) -> int:
    return len(begun.data)
