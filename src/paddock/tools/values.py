"""JSON values: decoding them strictly, and when two of them are the same.

Source  RFC 8259: no NaN or Infinity literals; of a repeated key the last one counts.
Shapes  numbers are the same when equal as numbers (1 and 1.0), never the same as a boolean; strings and list order are
        exact; the order of keys is not looked at.
Errors  `decode_object` returns Malformed. `same_json` never raises and does not recurse: depth is no limit.
"""

import json
from typing import Any, NoReturn

from paddock.tools.actions import Malformed
from paddock.types import Json, JsonObject


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def decode_object(text: str) -> JsonObject | Malformed:
    """The object that `text` is; nesting deeper than the interpreter reads is not JSON to us."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        return Malformed("not_json", f"arguments are not JSON: {str(error)[:100]}")
    if not isinstance(value, dict):
        return Malformed("not_object", f"arguments are a {type(value).__name__}, not an object")
    return value


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
