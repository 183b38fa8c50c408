"""A tool's JSON schema as its harness applies it: which arguments it refuses, and which defaults it adds.

Source  JSON Schema 2020-12: type, enum, required, properties, items, additionalProperties, default; `nullable` of
        OpenAPI. Other keywords ($ref, anyOf, patterns, limits) refuse nothing here.
Shapes  `fill` adds the default of each missing property, and leaves out a null that means the same as absence: the
        default is null, or the property is optional and may be null. Any other null differs from absence.
Errors  `violation` returns the first thing that is wrong, None when nothing is. Below 32 levels nothing is looked at.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from paddock.tools.actions import InvalidCall
from paddock.tools.values import same_json
from paddock.types import Json, JsonObject

_MAX_DEPTH = 32
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
    "number": (int, float),
    "integer": (int, float),
}


def properties_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _required(schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def _is(value: Json, name: Json) -> bool:
    kinds = _TYPES.get(name) if isinstance(name, str) else None
    if kinds is None:
        return True
    if isinstance(value, bool):
        return bool in kinds
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, kinds)


def violation(value: Json, schema: Json, where: str = "arguments", depth: int = 0) -> InvalidCall | None:
    """Why a tool with this schema refuses the value; None: it accepts it."""
    return next(_violations(value, schema, where, depth), None)


def _violations(value: Json, schema: Json, where: str, depth: int) -> Iterator[InvalidCall]:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return
    wanted = schema.get("type")
    if value is None and schema.get("nullable") is True:
        return
    names = wanted if isinstance(wanted, list) else [wanted]
    if wanted is not None and not any(_is(value, name) for name in names):
        yield InvalidCall("wrong_type", f"{where} is a {type(value).__name__}, not {_texts(names)}")
        return
    choices = schema.get("enum")
    if isinstance(choices, list) and not any(same_json(value, choice) for choice in choices):
        yield InvalidCall("wrong_value", f"{where} is none of {_texts(choices)}")
    elif isinstance(value, dict):
        yield from _in_object(value, schema, where, depth)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from _violations(item, schema["items"], f"{where}[{index}]", depth + 1)


def _in_object(value: JsonObject, schema: JsonObject, where: str, depth: int) -> Iterator[InvalidCall]:
    properties = properties_of(schema)
    for name in _required(schema):
        inner = properties.get(name)
        if name not in value and not (isinstance(inner, dict) and "default" in inner):
            yield InvalidCall("missing_argument", f"{where} lack {name!r}")
    for name, item in value.items():
        if name in properties:
            yield from _violations(item, properties[name], f"{where}.{name:.60}", depth + 1)
        elif schema.get("additionalProperties") is False:
            yield InvalidCall("unknown_argument", f"{where} have {name[:60]!r}, which the tool does not")


def _texts(values: list[Json]) -> str:
    return ", ".join(value for value in values if isinstance(value, str))[:120]


def fill(value: Json, schema: Json, depth: int = 0) -> Json:
    """The value as its tool sees it; shares what it does not change."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return value
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict) and items.get("type") in ("object", "array"):
        return [fill(item, items, depth + 1) for item in value]
    properties = properties_of(schema)
    if not isinstance(value, dict) or not properties:
        return value
    required = _required(schema)
    filled: JsonObject = {}
    for name, item in value.items():
        inner = properties.get(name)
        if item is not None or not isinstance(inner, dict) or not _null_is_absence(inner, name in required):
            filled[name] = fill(item, inner, depth + 1)
    for name, inner in properties.items():
        if name not in value and isinstance(inner, dict) and inner.get("default") is not None:
            filled[name] = inner["default"]
    return filled


def _null_is_absence(schema: JsonObject, required: bool) -> bool:
    if "default" in schema:
        return schema["default"] is None
    if required:
        return False
    names = schema.get("type")
    if schema.get("nullable") is True or (isinstance(names, list) and "null" in names):
        return True
    choices = schema.get("anyOf") or schema.get("oneOf")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("type") == "null" for choice in choices
    )
