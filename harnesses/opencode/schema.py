"""Check arguments by a tool's schema, with the messages of the program's schema library.

Law     properties are looked at in the schema's order, the first problem is told with its path; what the schema does
        not name is dropped, at every level.
Shapes  integers may be written as floats without a fraction; beyond 2**53 a number is none. null is no absence.
"""

import json
from typing import Any, cast

from paddock.tools import InvalidCall
from paddock.types import Json, JsonObject

SAFE = 2**53 - 1
"""The largest integer."""
ITEM = "Todo"
"""What the program calls the object in a list."""
_NAMES = {"integer": "number"}
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "number": (int, float),
    "integer": (int, float),
    "array": (list,),
    "object": (dict,),
}


class _SchemaViolation(Exception):  # noqa: N818 - carries a result
    def __init__(self, text: str, path: str) -> None:
        super().__init__(f"{text}\n  at {path}" if path else text)


def checked_arguments(value: Json, schema: JsonObject) -> JsonObject | InvalidCall:
    """Return the arguments that a tool gets, or InvalidCall with the library's message."""
    try:
        return cast("JsonObject", _checked(value, schema, "", optional=False))
    except _SchemaViolation as violation:
        return InvalidCall("wrong_type", str(violation))


def _checked(value: Json, schema: JsonObject, path: str, *, optional: bool) -> Any:
    kind = str(schema["type"])
    is_bool = isinstance(value, bool) and kind != "boolean"
    if is_bool or not isinstance(value, _KINDS[kind]):
        name = ITEM if kind == "object" and path else _NAMES.get(kind, kind)
        raise _SchemaViolation(f"Expected {name}{' | undefined' if optional else ''}, got {_shown(value)}", path)
    if isinstance(value, dict):
        return _object(value, schema, path)
    if isinstance(value, list):
        items = cast("JsonObject", schema["items"])
        return [_checked(item, items, f"{path}[{index}]", optional=False) for index, item in enumerate(value)]
    if kind == "integer":
        return _integer(cast("float", value), schema, path)
    return value


def _object(value: JsonObject, schema: JsonObject, path: str) -> JsonObject:
    required = cast("list[str]", schema.get("required", []))
    found: JsonObject = {}
    for name, inner in cast("dict[str, JsonObject]", schema["properties"]).items():
        at = f'{path}["{name}"]'
        if name in value:
            found[name] = _checked(value[name], inner, at, optional=name not in required)
        elif name in required:
            raise _SchemaViolation("Missing key", at)
    return found


def _integer(value: float, schema: JsonObject, path: str) -> int:
    if not float(value).is_integer() or abs(value) > SAFE:
        raise _SchemaViolation(f"Expected an integer, got {_shown(value)}", path)
    least = cast("int", schema.get("minimum", -SAFE))
    if "exclusiveMinimum" in schema and value <= cast("int", schema["exclusiveMinimum"]):
        raise _SchemaViolation(f"Expected a value greater than {schema['exclusiveMinimum']}, got {_shown(value)}", path)
    if value < least:
        raise _SchemaViolation(f"Expected a value greater than or equal to {least}, got {_shown(value)}", path)
    return int(value)


def _shown(value: Json) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(float(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _number(value: float) -> str:
    """As ECMAScript writes it."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
