"""Check arguments by a tool's schema, as the program does.

Law     properties are looked at in the schema's order, the first problem is reported with its path; what the schema
        does not name is dropped, at every level.
Shapes  integers may be written as floats without a fraction; beyond 2**53 a number is none. null is no absence.
"""

from typing import Any, cast

from paddock.tools import InvalidCall
from paddock.types import Json, JsonObject

SAFE = 2**53 - 1
"""The largest integer."""
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "number": (int, float),
    "integer": (int, float),
    "array": (list,),
    "object": (dict,),
}


class _SchemaViolation(Exception):  # noqa: N818 - carries a result
    pass


def checked_arguments(value: JsonObject, schema: JsonObject) -> JsonObject | InvalidCall:
    """Return the arguments that a tool gets, or the first thing that is wrong."""
    try:
        return _object(value, schema, "")
    except _SchemaViolation as violation:
        return InvalidCall("wrong_type", str(violation))


def _checked(value: Json, schema: JsonObject, path: str) -> Any:
    kind = str(schema["type"])
    is_bool = isinstance(value, bool) and kind != "boolean"
    if is_bool or not isinstance(value, _KINDS[kind]):
        raise _SchemaViolation(f"{path} is not of type {kind}")
    if isinstance(value, dict):
        return _object(value, schema, f"{path}.")
    if isinstance(value, list):
        items = cast("JsonObject", schema["items"])
        return [_checked(item, items, f"{path}[{index}]") for index, item in enumerate(value)]
    return _integer(cast("float", value), schema, path) if kind == "integer" else value


def _object(value: JsonObject, schema: JsonObject, prefix: str) -> JsonObject:
    checked: JsonObject = {}
    for name, inner in cast("dict[str, JsonObject]", schema["properties"]).items():
        if name in value:
            checked[name] = _checked(value[name], inner, prefix + name)
        elif name in cast("list[str]", schema.get("required", [])):
            raise _SchemaViolation(f"{prefix}{name} is missing")
    return checked


def _integer(value: float, schema: JsonObject, path: str) -> int:
    least = cast("int", schema.get("minimum", -SAFE))
    if "exclusiveMinimum" in schema:
        least = cast("int", schema["exclusiveMinimum"]) + 1
    if not least <= value <= SAFE or value != int(value):
        raise _SchemaViolation(f"{path} is not an integer from {least} to {SAFE}")
    return int(value)
