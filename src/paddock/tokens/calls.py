"""What of a model call identifies it: the rollout that it belongs to, and the hash of what was asked.

Law     a rollout is named by the secret in the base URL (`/r/<secret>/v1/...`), else by an API key that has a rollout
        secret's form (`ro_...`); any other key names none.
Errors  RequestError `body_invalid` for a body that is no JSON.
"""

import hashlib

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


def request_hash(body: JsonObject) -> str:
    """SHA-256 (hex) of the canonical JSON, keys sorted, of what was asked."""
    asked = {key: value for key, value in body.items() if key not in HOW_NOT_WHAT}
    try:
        return hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()
    except orjson.JSONEncodeError as error:
        raise RequestError(f"body is no JSON: {error}", kind="body_invalid") from error
