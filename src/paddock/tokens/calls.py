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
from paddock.types import JsonObject

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
    """The beginning of a request: all that is hashed up to the end of its history."""

    before: bytes
    """What stands before the history."""
    history: memoryview
    """Canonical JSON of the history, without the closing bracket."""
    hashed: "hashlib._Hash"
    """SHA-256 of both; not to be updated."""


class Asked(NamedTuple):
    """A request's body."""

    hash: str
    """SHA-256 (hex) of the canonical JSON of what was asked."""
    begun: Begun | None
    """None: its history is no list."""
    earlier: Begun | None
    """Of those that are known, that of the longest history with which this one's begins."""


def read_asked(body: JsonObject, key: str = "input", known: Iterable[Begun] = ()) -> Asked:
    """`key`: of the history. What is known is not hashed again."""
    asked = {key: value for key, value in body.items() if key not in HOW_NOT_WHAT}
    try:
        if not isinstance(asked.get(key), list):
            return Asked(hashlib.sha256(_canonical(asked)).hexdigest(), None, None)
        history = _canonical(asked[key])
        before = _canonical({name: value for name, value in asked.items() if name < key})[:-1]
        after = _canonical({name: value for name, value in asked.items() if name > key})[1:]
    except orjson.JSONEncodeError as error:
        raise RequestError(f"body is no JSON: {error}", kind="body_invalid") from error
    before = b'%b%b"%b":' % (before, b"," if len(before) > 1 else b"", key.encode())
    told = memoryview(history)[:-1]
    earlier = max((each for each in known if _begins(history, each.history)), key=_length, default=None)
    if earlier is not None and earlier.before == before:
        hashed = earlier.hashed.copy()
        hashed.update(told[len(earlier.history) :])
    else:
        hashed = hashlib.sha256(before)
        hashed.update(told)
    digest = hashed.copy()
    digest.update(b"]%b" % (after if len(after) == 1 else b"," + after))
    return Asked(digest.hexdigest(), Begun(before, told, hashed), earlier)


def _begins(history: bytes, other: memoryview) -> bool:
    return history.startswith(other) and history[len(other) : len(other) + 1] in (b",", b"]")


def _length(begun: Begun) -> int:
    return len(begun.history)


def request_hash(body: JsonObject) -> str:
    """SHA-256 (hex) of the canonical JSON of what was asked."""
    return read_asked(body).hash


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
