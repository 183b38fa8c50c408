"""A call's arguments text as JSON, with a bound on nesting, so that a verdict never depends on how deep the stack is.

Law     text nested deeper than `MAX_DEPTH` is as undecodable as text that is no JSON.
Shapes  `decode` gives any JSON value; NaN and Infinity are accepted, as Python's `json` does.
Errors  ValueError for text that does not decode; nothing else on any text.
"""

import json

from paddock.types import Json

MAX_DEPTH = 200


def decode(text: str) -> Json:
    """Decode `text` as JSON; ValueError where it is none, or nested too deep."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from error
    if text.count("{") + text.count("[") > MAX_DEPTH and _is_deep(value):
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    return value


def _is_deep(value: Json) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return False
    return True


def _children(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
