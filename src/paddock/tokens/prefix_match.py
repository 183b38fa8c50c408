"""The prefix match: which recorded turn a history continues, and which of its items are new.

Law     a turn is continued when the history begins with what the turn's own request held, then holds the turn's answer,
        and then more. A client that left out, changed or summed up something before an answer starts a branch: from the
        last turn before the change, or anew. An answer counts as recorded, however a client words it.
Answers are recognised by, in this order: the opaque handle (`encrypted_content`), call ids, item ids, text. All of an
        answer's calls have to be there, in any order; results between them are new. An empty answer is recognised by
        its absence, or by an empty message. What the history repeats once more than it was sampled is something else.
Others  roles, texts and call ids are compared; texts stripped, as clients trim what they send back. Reasoning counts
        only where no answer had it, and ids of what others said do not. Tools and template arguments come first.
Shapes  items of the Responses dialect, instructions as a system message. An item of another shape is no answer.
Cost    of a history that begins with the one matched before: its new items, and a comparison of the others. Else one
        pass over all, with a hash and a look-up per item.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from paddock.errors import RequestError
from paddock.types import JsonObject, Turn
from paddock.types.responses import CALLS, content_text, item_type, output_items

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

DIGEST_BYTES = 12
"""Length of the digest of a history up to some item; equal digests are taken for equal histories."""
OUTPUTS = ("function_call_output", "custom_tool_call_output")
HANDLE_PREFIX = "turn_"
DELIVERY_KEYS = frozenset({"stream", "stream_options"})
"""Request keys that say how an answer is sent, not what was asked."""


class PrefixMatch(NamedTuple):
    """Where a request stands in the record of its rollout."""

    turn: str | None
    """The recorded turn that it continues; None: it starts anew."""
    environment: list[JsonObject]
    """Its items after that turn's end, in order."""
    digest: str
    """Digest of the whole history (hex)."""


class _RecordedAnswer(NamedTuple):
    """What a client may send back of a turn's answer."""

    turn: str
    calls: frozenset[str]
    ids: frozenset[str]
    texts: frozenset[str]
    """Stripped: each message, and all of them joined."""
    most: Mapping[str, int]
    """How many messages and how many reasoning items a client may send back."""
    silent: bool
    """It has nothing that a client would send back."""


class _AnswerMatch(NamedTuple):
    """An answer that the history holds from some item on."""

    turn: str
    rank: int
    """How it was recognised: the handle 4, a call 3, an item id 2, text 1."""
    end: int
    """Index of the first item after the answer."""
    between: list[JsonObject]
    """Results that stand before the last of its calls."""


class _Checkpoint(NamedTuple):
    """How far the last history was matched beyond doubt: up to an answer that is followed by an item that is not its
    own, and at each place where answers are known there was one alone, which stood there."""

    root: bytes
    items: Sequence[JsonObject]
    """The history up to the end of the answer, and one item more, at which it ends."""
    state: "Hash"
    """Hash of the history up to the end of the answer; not to be added to."""
    turn: str
    new: tuple[JsonObject, ...]
    """Those up to there that are new after that turn."""
    history: str
    """Digest of the whole history (hex)."""


class TurnIndex:
    """The turns of one rollout, found by the histories that continue them."""

    def __init__(self) -> None:
        self.by_id: dict[str, Turn] = {}
        self._by_history: dict[bytes, list[_RecordedAnswer]] = {}
        self._by_request: dict[str, str] = {}
        self._continued: set[str] = set()
        self._checkpoint: _Checkpoint | None = None

    def add(self, turn: Turn, history: str | None) -> None:
        """`history`: digest of the history in the turn's request; None: no history continues it."""
        self.by_id[turn.id] = turn
        self._by_request[turn.request_hash] = turn.id
        if turn.parent is not None:
            self._continued.add(turn.parent)
        if history is not None:
            self._by_history.setdefault(bytes.fromhex(history), []).append(_recorded_answer(turn))
            if self._checkpoint is not None and self._checkpoint.history != history:
                self._checkpoint = None  # it may answer something that stands before it

    def answer_to(self, request_hash: str) -> Turn | None:
        """The turn that answered the very same request last, while nothing has continued it."""
        turn = self._by_request.get(request_hash)
        return None if turn is None or turn in self._continued else self.by_id[turn]

    def full_ids(self, turn_id: str) -> list[int]:
        """All ids up to the turn's end. ValueError where a turn has none."""
        parts: list[list[int]] = []
        ancestor: str | None = turn_id
        while ancestor is not None:
            turn = self.by_id[ancestor]
            if turn.prompt_ids is None or turn.sampled_ids is None:
                raise ValueError("a turn of the chain has no ids")
            parts += (turn.sampled_ids, turn.prompt_ids)
            ancestor = turn.parent
        ids: list[int] = []
        for part in reversed(parts):
            ids += part
        return ids

    def match(self, items: Sequence[JsonObject], *, root: bytes = b"") -> PrefixMatch:
        """`root`: what stands before all items (`root_of`)."""
        checkpoint = self._checkpoint
        if checkpoint is None or checkpoint.root != root or items[: len(checkpoint.items)] != checkpoint.items:
            checkpoint = None
        state, turn, new = (
            (hashlib.sha256(root), None, [])
            if checkpoint is None
            else (checkpoint.state.copy(), checkpoint.turn, [*checkpoint.new])
        )
        position = 0 if checkpoint is None else len(checkpoint.items) - 1
        is_unambiguous = True
        while position < len(items):
            candidates = self._by_history.get(_digest(state), ()) if self._by_history else ()
            match = self._answer(candidates, state, items, position) if candidates else None
            is_unambiguous = is_unambiguous and (
                not candidates or (len(candidates) == 1 and match is not None and match.rank > 0)
            )
            if match is None:
                new.append(items[position])
                _add_item(state, items[position])
                position += 1
                continue
            turn, position, new = match.turn, match.end, match.between
            _add(state, b"turn", turn)
            for item in new:
                _add_item(state, item)
            if is_unambiguous and position < len(items):
                checkpoint = _Checkpoint(root, items[: position + 1], state.copy(), turn, tuple(new), "")
        history = _digest(state).hex()
        self._checkpoint = checkpoint and checkpoint._replace(history=history)
        return PrefixMatch(turn, new, history)

    def _answer(
        self, candidates: Sequence[_RecordedAnswer], state: "Hash", items: Sequence[JsonObject], start: int
    ) -> _AnswerMatch | None:
        """The one of `candidates`, the recorded answers to the history `state`, that stands at `start`. An empty answer
        is taken only where no other answer explains the items that come next."""
        match = _best_match(candidates, items, start)
        if match is None or match.rank:
            return match
        state = state.copy()
        for position in range(start, len(items)):
            later = _best_match(self._by_history.get(_digest(state), ()), items, position)
            if later is not None and later.rank:
                return None
            if _is_assistant(items[position]):
                break
            _add_item(state, items[position])
        return match


def request_hash(body: JsonObject) -> str:
    """The request key: SHA-256 (hex) of the canonical JSON, keys sorted, of what a request asks. RequestError
    `body_invalid` for a body that is no JSON."""
    request = dict(body)
    for key in DELIVERY_KEYS:
        request.pop(key, None)
    try:
        return hashlib.sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).hexdigest()
    except orjson.JSONEncodeError as error:
        raise RequestError(f"body is no JSON: {error}", kind="body_invalid") from error


def root_of(*parts: Any) -> bytes:
    """Digest of what a request has besides its history: JSON values."""
    canonical = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
    return _digest(hashlib.sha256(canonical))


def _best_match(candidates: Iterable[_RecordedAnswer], items: Sequence[JsonObject], start: int) -> _AnswerMatch | None:
    """The best of them: by what it was found, of equals the latest."""
    best: _AnswerMatch | None = None
    for answer in candidates:
        match = _match(answer, items, start)
        if match is not None and (best is None or match.rank >= best.rank):
            best = match
    return best


def _match(answer: _RecordedAnswer, items: Sequence[JsonObject], start: int) -> _AnswerMatch | None:
    missing = set(answer.calls)
    remaining = dict(answer.most)
    rank = 0
    between: list[JsonObject] = []
    position = start
    while position < len(items):
        item = items[position]
        kind = item_type(item)
        if missing and kind in OUTPUTS and item.get("call_id") in answer.calls:
            between.append(item)
        else:
            sure = bool(missing) or (rank >= 2 and not answer.calls and not answer.silent)
            evidence = _evidence(answer, item, missing, remaining, sure=sure)
            if evidence is None:
                break
            rank = max(rank, evidence)
            missing.discard(item.get("call_id", ""))
            if kind in remaining:
                remaining[kind] -= 1
        position += 1
    if missing:
        return None
    if rank:
        return _AnswerMatch(answer.turn, rank, position, between)
    silent = answer.silent and position < len(items) and not _is_assistant(items[position])
    return _AnswerMatch(answer.turn, 0, position, []) if silent else None


def _evidence(
    answer: _RecordedAnswer, item: JsonObject, missing: set[str], remaining: Mapping[str, int], *, sure: bool
) -> int | None:
    """How surely the item belongs to the answer, as in `_AnswerMatch.rank`; 0: it may; None: it does not.

    `missing`, `remaining`: calls and numbers of items that have not come yet; `sure`: a message has to be the answer's.
    """
    kind = item_type(item)
    if kind == "reasoning":
        handle = _handle(item)
        if handle is not None:
            return 4 if handle == answer.turn else None
        if remaining["reasoning"] <= 0:
            return None
        return 2 if item.get("id") in answer.ids else 0
    if kind in CALLS:
        return 3 if item.get("call_id") in missing else None
    if kind != "message" or item.get("role") != "assistant":
        return None
    text = content_text(item.get("content")).strip()
    if remaining["message"] <= 0:
        return 0 if missing and not text else None
    if item.get("id") in answer.ids:
        return 2
    if text in answer.texts:
        return 1
    return 0 if sure else None


def _handle(item: JsonObject) -> str | None:
    handle = item.get("encrypted_content")
    return handle if isinstance(handle, str) and handle.startswith(HANDLE_PREFIX) else None


def _is_assistant(item: JsonObject) -> bool:
    """Whether an item is the assistant's."""
    kind = item_type(item)
    return kind == "reasoning" or kind in CALLS or (kind == "message" and item.get("role") == "assistant")


def _recorded_answer(turn: Turn) -> _RecordedAnswer:
    texts: list[str] = []
    call_ids: set[str] = set()
    ids: set[str] = set()
    n_thoughts = 0
    for item in output_items(turn.output):
        kind = item_type(item)
        if isinstance(item.get("id"), str):
            ids.add(item["id"])
        if kind == "message" and item.get("role", "assistant") == "assistant":
            texts.append(content_text(item.get("content")))
        elif kind == "reasoning":
            n_thoughts += 1
        elif kind in CALLS and isinstance(item.get("call_id"), str):
            call_ids.add(item["call_id"])
    call_ids.discard("")
    shown = frozenset(map(str.strip, (*texts, "".join(texts)))) - {""}
    silent = not (shown or call_ids)
    most = {"message": len(texts) or int(silent), "reasoning": n_thoughts}
    return _RecordedAnswer(turn.id, frozenset(call_ids), frozenset(ids), shown or frozenset([""]), most, silent)


def _digest(state: "Hash") -> bytes:
    return state.digest()[:DIGEST_BYTES]


def _add_item(state: "Hash", item: JsonObject) -> None:
    """Add an item to the hash of a history."""
    kind = item_type(item)
    if kind == "message":
        _add(state, str(item.get("role")).encode(), _content(item.get("content")))
    elif kind in OUTPUTS:
        _add(state, b"output", f"{item.get('call_id')}\0{_content(item.get('output'))}")
    elif kind in CALLS:
        arguments = item.get("arguments", item.get("input"))
        _add(state, b"call", f"{item.get('call_id')}\0{item.get('name')}\0{arguments}")
    elif kind == "reasoning":
        thought = _handle(item) or content_text(item.get("summary")).strip()
        if thought:
            _add(state, b"reasoning", thought)
    else:
        _add(state, b"item", orjson.dumps(item).decode())


def _content(content: Any) -> str:
    """Its text, stripped, and whatever else it holds."""
    text = content_text(content).strip()
    if not isinstance(content, list):
        return text
    others = [part for part in content if isinstance(part, dict) and not isinstance(part.get("text"), str)]
    return f"{text}\0{orjson.dumps(others).decode()}" if others else text


def _add(state: "Hash", role: bytes, key: str) -> None:
    content = key.encode(errors="surrogatepass")
    state.update(b"%d %d %b%b" % (len(role), len(content), role, content))
