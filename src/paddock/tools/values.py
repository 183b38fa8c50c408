"""JSON values: a strict decoder, one as lenient as Python's `json`, and a comparison.

Source  RFC 8259: no NaN or Infinity literals; of a repeated key the last one counts, as in most programs, or it is
        refused (`unique`); a lone surrogate is no character, and is refused. Deeper than
        MAX_DEPTH is refused, so that no answer depends on the stack.
Shapes  numbers are the same when equal as numbers (1 and 1.0), never the same as a boolean; strings and list order are
        exact; the order of keys does not matter.
Lenient `decode_lenient` refuses only text that `json` can't decode, and what is nested too deep.
Errors  `decode_json` and `decode_object` return InvalidCall; `decode_lenient` raises ValueError, and nothing else.
        `same_json` never raises and does not recurse: depth is no limit.
"""

import json
from collections import Counter
from typing import Any, NoReturn, cast

from paddock.tools.actions import InvalidCall
from paddock.types import Json, JsonObject


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    value = dict(pairs)
    if len(value) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {twice[:40]!r} stands twice in one object")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_STRICT_DECODER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_object)

MAX_DEPTH = 200
"""Levels of nesting that arguments may have."""


def decode_json(text: str, *, unique: bool = False) -> Json | InvalidCall:
    """Decode any JSON value. `unique`: refuse a key that stands twice in one object, since programs differ in which one
    they take."""
    try:
        value = (_STRICT_DECODER if unique else _DECODER).decode(text)
        _require_shallow(text, value)
        if not text.isascii() or "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        return InvalidCall("not_json", f"arguments are not JSON: {str(error)[:100]}")
    return cast("Json", value)


def decode_object(text: str, *, unique: bool = False) -> JsonObject | InvalidCall:
    """Decode a JSON object; `unique`: as of `decode_json`."""
    value = decode_json(text, unique=unique)
    if isinstance(value, dict | InvalidCall):
        return value
    return InvalidCall("not_object", f"arguments are a {type(value).__name__}, not an object")


def decode_lenient(text: str) -> Json:
    """Decode any JSON value, NaN and Infinity among them."""
    try:
        value = cast("Json", json.loads(text))
    except RecursionError as error:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from error
    _require_shallow(text, value)
    return value


def _require_shallow(text: str, value: Json) -> None:
    if text.count("{") + text.count("[") > MAX_DEPTH and _is_deep(value):
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


def has_visible_text(text: str) -> bool:
    """Whether a text has any visible character: blanks and characters without width are not."""
    return any(char.isprintable() and not char.isspace() for char in text)


def same_json(left: Json, right: Json) -> bool:
    stack: list[tuple[Any, Any]] = [(left, right)]
    while stack:
        a, b = stack.pop()
        if isinstance(a, bool) or isinstance(b, bool):
            if a is not b:
                return False
        elif isinstance(a, int | float) and isinstance(b, int | float):
            if a != b:
                return False
        elif type(a) is not type(b):
            return False
        elif isinstance(a, dict):
            if a.keys() != b.keys():
                return False
            stack.extend((value, b[key]) for key, value in a.items())
        elif isinstance(a, list):
            if len(a) != len(b):
                return False
            stack.extend(zip(a, b, strict=True))
        elif a != b:
            return False
    return True


def _is_deep(value: Json) -> bool:
    level: list[Json] = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Json] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        if not inner:
            return False
        level = inner
    return True
