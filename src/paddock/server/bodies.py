"""JSON bodies that tell a list again and again, each time with more: only what is new is parsed.

Law     what is read is what `orjson` reads of the whole body. A body goes on from an earlier one of the same client
        where it differs by nothing but items that were put behind the list's last one: its bytes are the earlier
        body's, up to the end of that item and from there on, with a comma and those items between.
        Objects are shared between the bodies that tell them, and are not to be changed (`FixedList`).
Bounds  `MAX_BODIES` of each client (its conversations), `max_bytes` of all. A client whose bodies do not go on from one
        another is not followed after `MAX_MISSES` of them: where a list's items end is found out by Python's own
        scanner, which takes longer than `orjson`.
Errors  JSONDecodeError of `orjson`.
"""

import json
import re
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
_SPACE = re.compile(r"[ \t\n\r]*")
_UNREADABLE = (ValueError, IndexError, RecursionError)
_scan = json.JSONDecoder().raw_decode


class _Begun(NamedTuple):
    data: bytes
    """Of a body, up to the end of the last item."""
    behind: bytes
    """The rest of it."""
    wire: dict[str, Any]
    """What it says; its list is not looked at."""
    items: list[Any]
    mark: object
    """See `FixedList`."""

    @property
    def bytes(self) -> int:
        """Of memory."""
        return OBJECTS_PER_BYTE * (len(self.data) + len(self.behind))


class _Client:
    """Bodies of one client, the latest last."""

    def __init__(self) -> None:
        self.begun: list[_Begun] = []
        self.misses = 0
        """Bodies since the last one that went on from another."""
        self.bytes = ENTRY_BYTES
        """Of memory."""

    def keep(self, begun: _Begun, earlier: _Begun | None = None) -> None:
        """In place of `earlier`, or of the one that was kept longest, where there are too many."""
        if earlier is None and len(self.begun) == MAX_BODIES:
            earlier = self.begun[0]
        if earlier is not None:
            self.bytes -= earlier.bytes
        self.begun = [*(each for each in self.begun if each is not earlier), begun]
        self.bytes += begun.bytes


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
    earlier: _Begun | None = None
    for each in known.begun:
        longer = earlier is None or len(each.data) > len(earlier.data)
        if longer and body.startswith(each.data) and body.endswith(each.behind):
            earlier = each
    new = None if earlier is None else _new(earlier, body)
    if earlier is not None and new is not None:
        known.misses = 0
        data = body[: len(body) - len(earlier.behind)]
        told = FixedList([*earlier.items, *new], goes_on=earlier.mark)
        known.keep(_Begun(data, earlier.behind, earlier.wire, [*told], told.mark), earlier)
        return {**earlier.wire, key: told}
    wire = orjson.loads(body)
    known.misses += 1
    if isinstance(wire, dict) and isinstance(wire.get(key), list):
        wire[key] = told = FixedList(wire[key])
        place = _end(key, body) if known.misses <= MAX_MISSES else None
        if place is not None:
            known.keep(_Begun(body[:place], body[place:], {**wire}, [*told], told.mark))
    return wire


def _new(earlier: _Begun, body: bytes) -> list[Any] | None:
    """Items; None: the whole has to be parsed."""
    between = body[len(earlier.data) : len(body) - len(earlier.behind)]
    if not between.startswith(b","):
        return None
    try:
        found: list[list[Any]] = orjson.loads(b"[[%b]]" % between[1:])
    except orjson.JSONDecodeError:
        return None
    return found[0] if len(found) == 1 and found[0] else None


def _end(key: str, body: bytes) -> int | None:
    """Of the last item of a body's list, in bytes; None: it has none, or its key stands there once more."""
    try:
        text = body.decode()
        behind = _after_space(text, 0) + 1
        while True:
            name, end = _scan(text, _after_space(text, behind))
            value = _after_space(text, _after_space(text, end) + 1)
            if name == key:
                break
            behind = _after_space(text, _scan(text, value)[1]) + 1
        end = _items_end(text, value + 1)
        once_more = key in orjson.loads(f'{{"":[{text[end:]}')
        return None if text[value] != "[" or once_more else len(text[:end].encode())
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
