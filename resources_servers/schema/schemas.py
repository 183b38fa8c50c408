"""A row's JSON Schema: read, made strict, compiled once; and texts of XML and CSV as the types that it names.

Strict  every property that an object lists is required, and no other is taken: what NeMo-Gym's `structured_outputs`
        makes of a row's schema before it looks at an answer. Members of lists (`anyOf`, ...) stay as they are.
Draft   the one that `$schema` names, else 2020-12. `format` says nothing unless it is asked for.
Bounds  patterns are matched in linear time; those with lookarounds or back references by at most
        `MAX_BACKTRACKS` steps, beyond which they do not match. A `$ref` to another document is never fetched.
Errors  SchemaError: no JSON, no schema, or one that needs what is not there. It is the row's fault.
"""

import copy
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import regex

from paddock.errors import ConfigError
from paddock.resources_servers.schema.documents import read_json

MAX_SCHEMA_CHARS = 1_000_000
MAX_BACKTRACKS = 10_000
_MAX_PATTERN_BYTES = 1 << 20
_NAMES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords under which keys are names, not keywords."""
_EMPTY: tuple[Any, ...] = ({}, [], "", None)
_INTEGER = regex.compile(r"[+-]?[0-9]+")
_NUMBER = regex.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class SchemaError(ValueError):
    """A schema that can't be used; the message says why."""


class Validator(Protocol):
    """What of jsonschema-rs is used."""

    def iter_errors(self, instance: Any) -> Any: ...

    def is_valid(self, instance: Any) -> bool: ...


class AnswerSchema(NamedTuple):
    """A schema that is ready to be used."""

    schema: Any
    validator: Validator
    refers: bool
    """It has references, also to itself."""
    takes_empty: bool
    """It takes a document that says nothing: an empty object, list or text, or null."""


@lru_cache(maxsize=512)
def compile_schema(text: str, *, strict: bool, formats: bool) -> AnswerSchema:
    """Compile the schema of a row. Raises SchemaError; ConfigError where jsonschema-rs is not installed."""
    if len(text) > MAX_SCHEMA_CHARS:
        raise SchemaError(f"more than {MAX_SCHEMA_CHARS} characters")
    try:
        schema = read_json(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"no JSON: {error}") from error
    if not isinstance(schema, dict | bool):
        raise SchemaError("neither an object nor a boolean")
    if strict:
        schema = _strict(copy.deepcopy(schema))
    validator = _validator(schema, formats)
    return AnswerSchema(
        schema, validator, 'Ref"' in text or 'ref"' in text, any(validator.is_valid(empty) for empty in _EMPTY)
    )


def problem_of(schema: AnswerSchema, value: Any) -> str | None:
    """Say why the schema does not take a value; None: it does."""
    try:
        if schema.validator.is_valid(value):
            return None
        # What is valid is remembered, reasons are not: with references there may be 2 to the levels of them.
        error = None if schema.refers else next(iter(schema.validator.iter_errors(value)), None)
    except (ValueError, UnicodeError) as unusable:  # a date of YAML or TOML, half a surrogate pair
        return str(unusable)[:200]
    return (
        f"{'/'.join(map(str, error.instance_path))}: {error.message}"[:200] if error else "the schema does not take it"
    )


def _validator(schema: Any, formats: bool) -> Validator:
    try:
        import jsonschema_rs
    except ImportError as error:
        raise ConfigError("the schema server needs jsonschema-rs: pip install 'paddock[schema]'") from error
    linear = jsonschema_rs.RegexOptions(size_limit=_MAX_PATTERN_BYTES)
    stepped = jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS, size_limit=_MAX_PATTERN_BYTES)
    problem: Exception | None = None
    for options in (linear, stepped):
        try:
            validator: Validator = jsonschema_rs.validator_for(
                schema, validate_formats=formats, pattern_options=options, offline=True
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            problem = error
        else:
            return validator
    raise SchemaError(str(problem).partition("\n")[0][:300])


def _strict(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    if "properties" in schema:
        if not isinstance(schema["properties"], dict):
            raise SchemaError("`properties` is no object")
        schema["required"] = list(schema["properties"])
        schema["additionalProperties"] = False
    for key, value in schema.items():
        for inner in value.values() if key in _NAMES and isinstance(value, dict) else (value,):
            _strict(inner)
    return schema


def typed_xml(value: Any, schema: Any) -> Any:
    """Give the texts of XML the types that the schema names; what is none of that type stays a text."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "object" and isinstance(value, dict):
        properties = schema.get("properties", {})
        return {key: typed_xml(one, properties[key]) if key in properties else one for key, one in value.items()}
    if kind == "array":
        # <tags><tag>a</tag><tag>b</tag></tags> is {"tag": ["a", "b"]}: the name within does not count.
        inner = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
        items = inner if isinstance(inner, list) else [] if inner is None else [inner]
        return [typed_xml(one, schema.get("items", {})) for one in items]
    if value is None and kind == "string":
        return ""
    return _typed(value, kind)


def typed_csv(rows: list[dict[str, Any]], schema: Any) -> list[dict[str, Any]]:
    """Give the cells of CSV the types that the schema of a row names."""
    items = schema.get("items", schema) if isinstance(schema, dict) else {}
    properties = items.get("properties", {}) if isinstance(items, dict) else {}
    kinds = {key: one.get("type", "string") for key, one in properties.items() if isinstance(one, dict)}
    return [{key: _typed_cell(cell, kinds.get(key, "string")) for key, cell in row.items()} for row in rows]


def _typed_cell(cell: Any, kind: Any) -> Any:
    kinds = kind if isinstance(kind, list) else [kind]
    if not cell:
        return None if isinstance(kind, list) and "null" in kinds else cell
    for one in kinds:
        if one == "string":
            return cell
        value = _typed(cell, one)
        if not isinstance(value, str):
            return value
    return cell


def _typed(value: Any, kind: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = value.strip()
    if kind == "integer" and _INTEGER.fullmatch(text) and len(text) < 400:
        return int(text)
    if kind == "number" and _NUMBER.fullmatch(text) and abs(float(text)) < float("inf"):
        return float(text)
    if kind == "boolean":
        return _BOOLEANS.get(value.lower(), value)
    return value
