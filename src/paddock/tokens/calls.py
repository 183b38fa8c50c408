"""What of a model call identifies it: the rollout that it belongs to, and the hash of what was asked.

Law     a rollout is named by the secret in the base URL (`/r/<secret>/v1/...`), else by an API key that has a rollout
        secret's form (`ro_...`); any other key names none.
Errors  RequestError `body_invalid` for a body that is no JSON.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from paddock.errors import RequestError
from paddock.http import Call
from paddock.tokens.private import NOTHING, Copied, canonical
from paddock.types import FixedList, JsonObject

SECRET_PREFIX = "ro_"
HOW_NOT_WHAT = frozenset({"stream", "stream_options"})
"""Request keys that say how an answer is sent, not what was asked."""


def rollout_of(call: Call) -> str | None:
    """The secret of the call's rollout; None: the call belongs to none, and is not recorded."""
    named = call.path.get("secret")
    if named:
        return named
    return call.bearer if call.bearer and call.bearer.startswith(SECRET_PREFIX) else None


class Begun(NamedTuple):
    """A request, begun: what was asked, hashed up to the end of its history."""

    before: bytes
    """What stands before the history."""
    history: Copied
    hashed: "hashlib._Hash"
    """SHA-256 of both, without the history's closing bracket; not to be updated."""
    after: bytes
    """What stands behind the history."""
    mark: object
    """Of the history (`FixedList`); None: it has none."""

    @property
    def besides(self) -> tuple[bytes, bytes]:
        """What its request asks besides its history."""
        return self.before, self.after


class Asked(NamedTuple):
    """A request's body."""

    hash: str
    """SHA-256 (hex) of the canonical JSON of what was asked."""
    begun: Begun | None
    """None: its history is no list."""
    earlier: Begun | None
    """Of those that are known, that of the longest history with which this one's begins."""


def read_asked(body: JsonObject, key: str = "input", known: Iterable[Begun] = ()) -> Asked:
    """`key`: of the history. What is known is neither written nor hashed again."""
    known = list(known)
    history = body.get(key)
    earlier = _gone_on(history, known) if isinstance(history, FixedList) else None
    try:
        if not isinstance(history, list):
            return Asked(hashlib.sha256(canonical(_asked(body))).hexdigest(), None, None)
        if earlier is not None:
            before, after = earlier.besides
        else:
            asked = _asked(body)
            before = canonical({name: value for name, value in asked.items() if name < key})[:-1]
            before = b'%b%b"%b":' % (before, b"," if len(before) > 1 else b"", key.encode())
            after = canonical({name: value for name, value in asked.items() if name > key})[1:]
            earlier = max((each for each in known if each.history.begins(history)), key=_length, default=None)
        begun = _begun(before, history, after, earlier)
    except orjson.JSONEncodeError as error:
        raise RequestError(f"body is no JSON: {error}", kind="body_invalid") from error
    digest = begun.hashed.copy()
    digest.update(b"]%b" % (after if len(after) == 1 else b"," + after))
    return Asked(digest.hexdigest(), begun, earlier)


def _asked(body: JsonObject) -> JsonObject:
    return {key: value for key, value in body.items() if key not in HOW_NOT_WHAT}


def _gone_on(history: FixedList, known: Iterable[Begun]) -> Begun | None:
    """The one of whose request this one's differs by more items alone."""
    for each in known:
        items = each.history.items
        if each.mark is not None and each.mark is history.goes_on:
            # Somebody may have changed a list that is not to be changed.
            return each if len(history) >= len(items) > 0 and history[len(items) - 1] is items[-1] else None
    return None


def _begun(before: bytes, history: list[Any], after: bytes, earlier: Begun | None) -> Begun:
    """`earlier`: of a history with which this one begins."""
    if earlier is None:
        earlier = Begun(before, NOTHING, hashlib.sha256(before + b"["), after, None)
    known = earlier.history
    same = earlier.before == before
    hashed = earlier.hashed.copy() if same else hashlib.sha256(before + canonical(known.items)[:-1])
    new = history[len(known.items) :]
    if new:
        hashed.update(b"%b%b" % (b"," if known.items else b"", canonical(new)[1:-1]))
    if isinstance(history, FixedList):
        return Begun(before, Copied.of_fixed(history), hashed, after, history.mark)
    return Begun(before, known.and_more(new), hashed, after, None)


def _length(begun: Begun) -> int:
    return len(begun.history.items)


def request_hash(body: JsonObject) -> str:
    """SHA-256 (hex) of the canonical JSON of what was asked."""
    return read_asked(body).hash
