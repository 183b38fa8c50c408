"""JSON bodies that tell a list again and again, each time with more: only what is new is parsed.

Law     what is read is what `orjson` reads of the whole body. A body goes on from an earlier one of the same client
        where its bytes begin with the other's, up to the end of the list's last item; those are not parsed again. What
        stands behind the list is not either where it, too, is the same: but for items, nothing is new then, which the
        list says (`FixedList.goes_on`). Some clients write the same in another order each time.
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
    behind: bytes
    """The rest of it."""
    before: dict[str, Any]
    """Of its keys, those that stand before the list."""
    after: dict[str, Any]
    """Those behind it."""
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
        if body.startswith(each.data) and (earlier is None or len(each.data) > len(earlier.data)):
            earlier = each
    went_on = None if earlier is None else _with_more(earlier, key, body) or _went_on(earlier, key, body)
    if earlier is not None and went_on is not None:
        known.misses = 0
        known.keep(went_on.begun, earlier)
        return went_on.wire
    wire = orjson.loads(body)
    known.misses += 1
    if isinstance(wire, dict) and isinstance(wire.get(key), list):
        wire[key] = told = FixedList(wire[key])
        begun = _begun(key, body, told) if known.misses <= MAX_MISSES else None
        if begun is not None:
            known.keep(begun)
    return wire


class _WentOn(NamedTuple):
    wire: dict[str, Any]
    begun: _Begun


def _with_more(earlier: _Begun, key: str, body: bytes) -> _WentOn | None:
    """By items alone; None: it may have gone on otherwise."""
    behind = earlier.behind
    between = body[len(earlier.data) : len(body) - len(behind)]
    if not body.endswith(behind) or not between.startswith(b","):
        return None
    try:
        found: list[list[Any]] = orjson.loads(b"[[%b]]" % between[1:])
    except orjson.JSONDecodeError:
        return None
    if len(found) != 1 or not found[0]:
        return None
    told = FixedList([*earlier.items, *found[0]], goes_on=earlier.mark)
    begun = _Begun(body[: len(body) - len(behind)], behind, earlier.before, earlier.after, [*told], told.mark)
    return _WentOn({**earlier.before, key: told, **earlier.after}, begun)


def _went_on(earlier: _Begun, key: str, body: bytes) -> _WentOn | None:
    """None: the whole has to be parsed."""
    try:
        text = body[len(earlier.data) :].decode()
        place = _after_space(text, 0)
        more = text[place] == ","
        if not more and text[place] != "]":
            return None  # a number goes on
        after = orjson.loads(f'{{"{_LIST}":[{text[place + more :]}')
        new = after.pop(_LIST)
        if key in after or bool(new) != more:
            return None
        end = _items_end(text, place + 1) if more else 0
    except _UNREADABLE:
        return None
    told = FixedList([*earlier.items, *new])
    length = len(earlier.data) + len(text[:end].encode())
    begun = _Begun(body[:length], body[length:], earlier.before, after, [*told], told.mark)
    return _WentOn({**earlier.before, key: told, **after}, begun)


def _begun(key: str, body: bytes, told: FixedList) -> _Begun | None:
    """`told`: the body's list, as `orjson` reads it. None: nothing can go on from it."""
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
        after = orjson.loads(f'{{"{_LIST}":[{text[end:]}')
    except _UNREADABLE:
        return None
    del before[_LIST], after[_LIST]
    if key in after:
        return None  # that one counts
    length = len(text[:end].encode())
    return _Begun(body[:length], body[length:], before, after, [*told], told.mark)


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
