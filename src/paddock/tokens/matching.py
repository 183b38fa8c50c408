"""Which recorded turn a history continues, and what of it is new.

Law     a turn is continued when the history tells, item by item, what the turn's own request told, then what the turn
        said, and then more. A client that left out, changed or summed up something before it starts a branch: from the
        last turn before the change, or anew. What a turn said counts as recorded, however a client words it.
Said    by, in this order: the opaque handle (`encrypted_content`), call ids, item ids, text. All of a turn's calls have
        to be there, in any order; outputs told between them are new. An answer without a word is told by silence, or by
        an empty message. What is told once more than it was said is something else.
Told    roles, texts and call ids; texts stripped: clients trim what they send back. Reasoning counts only where no turn
        said it, and ids of what others said do not. Tools and arguments of the template come first of all.
Shapes  items of the Responses dialect, instructions as a system message. What is not of that shape was not said.
Cost    one pass over the history, with a hash and a look-up per item.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from paddock.tokens.deltas import full_ids
from paddock.types import JsonObject, Turn
from paddock.types.responses import calls, content_text, item_type, messages, output_items

DIGEST_BYTES = 12
"""Of all that was told up to a point; equal ones are taken for equal histories."""
CALLS = ("function_call", "custom_tool_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output")
HANDLE_PREFIX = "turn_"


class Matched(NamedTuple):
    """Where a request stands in the record of its rollout."""

    turn: str | None
    """The recorded turn that it continues; None: it starts anew."""
    environment: list[JsonObject]
    """What it tells after that turn's end, in order."""
    digest: str
    """Of all that it tells (hex)."""


class _Said(NamedTuple):
    """What a client may say again of a turn."""

    turn: str
    calls: frozenset[str]
    ids: frozenset[str]
    texts: frozenset[str]
    """Stripped: each message, and all of them joined."""
    most: Mapping[str, int]
    """How many messages and how many reasoning items a client may tell."""
    silent: bool
    """It said nothing that a client would send back."""


class _Covered(NamedTuple):
    """A turn that the history tells from some item on."""

    turn: str
    rank: int
    """By what it was found: the handle 4, a call 3, an item id 2, text 1."""
    end: int
    """Index of the first item after what it said."""
    between: list[JsonObject]
    """Outputs told before the last of its calls."""


class TurnIndex:
    """Finds turns of one rollout by what requests tell."""

    def __init__(self) -> None:
        self.by_id: dict[str, Turn] = {}
        self._by_history: dict[bytes, list[_Said]] = {}
        self._by_request: dict[str, str] = {}
        self._continued: set[str] = set()

    def add(self, turn: Turn, history: str | None) -> None:
        """`history`: digest of what the turn's request told; None: it is never continued by what a client tells."""
        self.by_id[turn.id] = turn
        self._by_request[turn.request_hash] = turn.id
        if turn.parent is not None:
            self._continued.add(turn.parent)
        if history is not None:
            self._by_history.setdefault(bytes.fromhex(history), []).append(_said(turn))

    def answered(self, request_hash: str) -> Turn | None:
        """The turn that answered the very same request last, while nothing has continued it."""
        turn = self._by_request.get(request_hash)
        return None if turn is None or turn in self._continued else self.by_id[turn]

    def chain(self, turn_id: str | None) -> list[Turn]:
        """The turn and its ancestors, root first; none of None."""
        found: list[Turn] = []
        while turn_id is not None:
            found.append(self.by_id[turn_id])
            turn_id = found[-1].parent
        found.reverse()
        return found

    def full_ids(self, turn_id: str) -> list[int]:
        """All ids up to the turn's end. ValueError where a turn has none."""
        return full_ids(self.chain(turn_id))

    def match(self, items: Sequence[JsonObject], *, root: bytes = b"") -> Matched:
        """`root`: what stands before all items (`root_of`)."""
        digest, turn, position = root, None, 0
        new: list[JsonObject] = []
        while position < len(items):
            covered = self._answer(digest, items, position)
            if covered is None:
                new.append(items[position])
                digest = _told(digest, items[position])
                position += 1
                continue
            turn, position, new = covered.turn, covered.end, covered.between
            digest = _fold(digest, b"turn", turn)
            for item in new:
                digest = _told(digest, item)
        return Matched(turn, new, digest.hex())

    def _answer(self, digest: bytes, items: Sequence[JsonObject], start: int) -> _Covered | None:
        """What was said after `digest` and is told from `start` on; by silence only where what comes next was not told
        without it."""
        candidates = self._by_history.get(digest)
        if not candidates:
            return None
        covered = _covered(candidates, items, start)
        if covered is None or covered.rank:
            return covered
        for position in range(start, len(items)):
            found = _covered(self._by_history.get(digest, ()), items, position)
            if found is not None and found.rank:
                return None
            if _is_own(items[position]):
                break
            digest = _told(digest, items[position])
        return covered


def root_of(*parts: Any) -> bytes:
    """Digest of what a request says besides its history: JSON values."""
    canonical = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(canonical, digest_size=DIGEST_BYTES).digest()


def _covered(candidates: Iterable[_Said], items: Sequence[JsonObject], start: int) -> _Covered | None:
    """The best of them: by what it was found, of equals the latest."""
    best: _Covered | None = None
    for said in candidates:
        found = _tells(said, items, start)
        if found is not None and (best is None or found.rank >= best.rank):
            best = found
    return best


def _tells(said: _Said, items: Sequence[JsonObject], start: int) -> _Covered | None:
    missing = set(said.calls)
    left = dict(said.most)
    rank = 0
    between: list[JsonObject] = []
    position = start
    while position < len(items):
        item = items[position]
        kind = item_type(item)
        if missing and kind in OUTPUTS and item.get("call_id") in said.calls:
            between.append(item)
        else:
            sure = bool(missing) or (rank >= 2 and not said.calls and not said.silent)
            found = _evidence(said, item, missing, left, sure=sure)
            if found is None:
                break
            rank = max(rank, found)
            missing.discard(item.get("call_id", ""))
            if kind in left:
                left[kind] -= 1
        position += 1
    if missing:
        return None
    if rank:
        return _Covered(said.turn, rank, position, between)
    silent = said.silent and position < len(items) and not _is_own(items[position])
    return _Covered(said.turn, 0, position, []) if silent else None


def _evidence(said: _Said, item: JsonObject, missing: set[str], left: Mapping[str, int], *, sure: bool) -> int | None:
    """How surely the item is what the turn said, 0: it does not tell; None: it is something else.

    `missing`, `left`: calls and numbers of items that were not told yet; `sure`: a message has to be the turn's.
    """
    kind = item_type(item)
    if kind == "reasoning":
        handle = _handle(item)
        if handle is not None:
            return 4 if handle == said.turn else None
        if left["reasoning"] <= 0:
            return None
        return 2 if item.get("id") in said.ids else 0
    if kind in CALLS:
        return 3 if item.get("call_id") in missing else None
    if kind != "message" or item.get("role") != "assistant":
        return None
    text = content_text(item.get("content")).strip()
    if left["message"] <= 0:
        return 0 if missing and not text else None
    if item.get("id") in said.ids:
        return 2
    if text in said.texts:
        return 1
    return 0 if sure else None


def _handle(item: JsonObject) -> str | None:
    handle = item.get("encrypted_content")
    return handle if isinstance(handle, str) and handle.startswith(HANDLE_PREFIX) else None


def _is_own(item: JsonObject) -> bool:
    """The assistant's."""
    kind = item_type(item)
    return kind == "reasoning" or kind in CALLS or (kind == "message" and item.get("role") == "assistant")


def _said(turn: Turn) -> _Said:
    spoken = messages(turn.output)
    texts = frozenset(text for text in map(str.strip, (*spoken, "".join(spoken))) if text)
    called = frozenset(call.call_id for call in calls(turn.output) if call.call_id)
    ids = frozenset(item["id"] for item in output_items(turn.output) if isinstance(item.get("id"), str))
    thoughts = sum(item_type(item) == "reasoning" for item in output_items(turn.output))
    silent = not (texts or called)
    most = {"message": len(spoken) or int(silent), "reasoning": thoughts}
    return _Said(turn.id, called, ids, texts or frozenset([""]), most, silent)


def _told(digest: bytes, item: JsonObject) -> bytes:
    kind = item_type(item)
    if kind == "message":
        return _fold(digest, str(item.get("role")).encode(), _content(item.get("content")))
    if kind in OUTPUTS:
        return _fold(digest, b"output", f"{item.get('call_id')}\0{_content(item.get('output'))}")
    if kind in CALLS:
        said = item.get("arguments", item.get("input"))
        return _fold(digest, b"call", f"{item.get('call_id')}\0{item.get('name')}\0{said}")
    if kind == "reasoning":
        thought = _handle(item) or content_text(item.get("summary")).strip()
        return _fold(digest, b"reasoning", thought) if thought else digest
    return _fold(digest, b"item", orjson.dumps(item).decode())


def _content(content: Any) -> str:
    """Its text, stripped, and whatever else it holds."""
    text = content_text(content).strip()
    if not isinstance(content, list):
        return text
    others = [part for part in content if isinstance(part, dict) and not isinstance(part.get("text"), str)]
    return f"{text}\0{orjson.dumps(others).decode()}" if others else text


def _fold(digest: bytes, role: bytes, key: str) -> bytes:
    told = b"%b\0%b\0%b" % (digest, role, key.encode(errors="surrogatepass"))
    return hashlib.blake2b(told, digest_size=DIGEST_BYTES).digest()
