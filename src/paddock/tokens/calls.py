"""What of a model call identifies it: the rollout that it belongs to, and the hash of what was asked.

Law     a rollout is named by the secret in the base URL (`/r/<secret>/v1/...`), else by an API key that has a rollout
        secret's form (`ro_...`); any other key names none.
Errors  RequestError `body_invalid` for a body that is no JSON.
"""

import hashlib
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


class Asked(NamedTuple):
    """A request's body."""

    hash: str
    """SHA-256 (hex) of the canonical JSON of what was asked."""
    history: bytes
    """Canonical JSON of its history, where that is a list; else empty."""


def read_asked(body: JsonObject, key: str = "input") -> Asked:
    """`key`: of the history."""
    asked = {key: value for key, value in body.items() if key not in HOW_NOT_WHAT}
    try:
        if not isinstance(asked.get(key), list):
            return Asked(hashlib.sha256(_canonical(asked)).hexdigest(), b"")
        history = _canonical(asked[key])
        before = _canonical({name: value for name, value in asked.items() if name < key})[:-1]
        after = _canonical({name: value for name, value in asked.items() if name > key})[1:]
    except orjson.JSONEncodeError as error:
        raise RequestError(f"body is no JSON: {error}", kind="body_invalid") from error
    digest = hashlib.sha256(b'%b%b"%b":' % (before, b"," if len(before) > 1 else b"", key.encode()))
    digest.update(history)
    digest.update(after if len(after) == 1 else b"," + after)
    return Asked(digest.hexdigest(), history)


def request_hash(body: JsonObject) -> str:
    """SHA-256 (hex) of the canonical JSON of what was asked."""
    return read_asked(body).hash


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
