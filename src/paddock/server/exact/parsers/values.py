"""What calls are made of: names, JSON, values that are written as plain text, and sequences of blocks.

Errors  ValueError for what can't be read, whatever the reason: also what is nested too deeply, a number that is none in
        JSON, or a text that is none in UTF-8.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from paddock.server.exact.parsers.calls import AnswerCall
from paddock.types import JsonObject

_TYPES: dict[type, tuple[str, ...]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    dict: ("object",),
    list: ("array",),
    type(None): ("null",),
}


def parse_json(text: str) -> Any:
    """One value, blanks around it."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def make_call(name: Any, arguments: Any) -> AnswerCall:
    """A call, from values."""
    if not isinstance(name, str) or not name.strip() or not isinstance(arguments, dict):
        raise ValueError("needs a name and an object of arguments")
    name.encode()
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        return AnswerCall(name.strip(), text if _is_utf8(text) else json.dumps(arguments, allow_nan=False))
    except (RecursionError, TypeError) as error:
        raise ValueError("no JSON") from error


def matches(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Matches that follow each other and make up the whole text but for blanks; at least one."""
    found: list[re.Match[str]] = []
    position, end = 0, len(text.rstrip())
    while position < end or not found:
        match = pattern.match(text, position)
        if match is None:
            raise ValueError(f"no block at character {position}")
        found.append(match)
        position = match.end()
    return found


def parameter_types(tools: Sequence[JsonObject], name: str) -> dict[str, frozenset[str]]:
    """JSON types that a tool's parameters may have, by parameter; empty for those that the tool says nothing of."""
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, dict) and function.get("name") == name:
            parameters = function.get("parameters")
            properties = parameters.get("properties") if isinstance(parameters, dict) else None
            if isinstance(properties, dict):
                return {key: frozenset(_types(schema)) for key, schema in properties.items()}
    return {}


def typed_value(text: str, types: frozenset[str]) -> Any:
    """The value that a text means where strings are written without quotes. What is of none of the types is itself."""
    if not types - {"string"}:
        return text
    stripped = text.strip()
    if "boolean" in types and stripped.lower() in ("true", "false"):
        return stripped.lower() == "true"
    try:
        value = parse_json(stripped)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return text
    return value if "string" not in types or types.intersection(_TYPES[type(value)]) else text


def _types(schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    given = schema.get("type")
    yield from (name for name in (given if isinstance(given, list) else [given]) if isinstance(name, str))
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        for option in options if isinstance(options, list) else ():
            yield from _types(option)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
