"""A tool's schema: what it refuses and what it fills in."""

from typing import Any

import pytest

from paddock.tools import InvalidCall, OtherCall, normalise, same_json

BOOK: dict[str, Any] = {
    "type": "object",
    "properties": {
        "event": {"type": "string"},
        "seats": {"type": "integer", "default": 1},
        "price": {"type": "number"},
        "note": {"type": ["string", "null"]},
        "code": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "area": {"type": "string", "enum": ["hall", "lawn"]},
        "guests": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "child": {"type": "boolean", "default": False}},
                "required": ["name"],
            },
        },
    },
    "required": ["event"],
    "additionalProperties": False,
}


def read(arguments: str) -> OtherCall | InvalidCall:
    action = normalise("book", arguments, schema=BOOK)
    assert isinstance(action, OtherCall | InvalidCall)
    return action


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"event": "x"}', '{"event": "x", "seats": 1}'),
        ('{"event": "x", "seats": 1.0}', '{"event": "x", "seats": 1}'),
        ('{"event": "x", "note": null}', '{"event": "x"}'),
        ('{"event": "x", "code": null}', '{"event": "x"}'),
        ('{"event": "x", "guests": [{"name": "a"}]}', '{"event": "x", "guests": [{"child": false, "name": "a"}]}'),
    ],
)
def test_a_default_that_is_given_equals_one_that_is_not(one: str, other: str) -> None:
    first, second = read(one), read(other)
    assert isinstance(first, OtherCall)
    assert isinstance(second, OtherCall)
    assert same_json(first.arguments, second.arguments)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("{}", "missing_argument"),
        ('{"event": 1}', "wrong_type"),
        ('{"event": null}', "wrong_type"),
        ('{"event": "x", "seats": "2"}', "wrong_type"),
        ('{"event": "x", "seats": 1.5}', "wrong_type"),
        ('{"event": "x", "seats": true}', "wrong_type"),
        ('{"event": "x", "price": true}', "wrong_type"),
        ('{"event": "x", "area": "roof"}', "wrong_value"),
        ('{"event": "x", "area": null}', "wrong_type"),
        ('{"event": "x", "colour": "red"}', "unknown_argument"),
        ('{"event": "x", "guests": {}}', "wrong_type"),
        ('{"event": "x", "guests": [{}]}', "missing_argument"),
        ('{"event": "x", "guests": ["a"]}', "wrong_type"),
    ],
)
def test_what_the_schema_forbids_is_refused(arguments: str, reason: str) -> None:
    action = read(arguments)
    assert isinstance(action, InvalidCall)
    assert action.reason == reason


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": 3},
        {"type": "object", "properties": []},
        {"properties": {"a": True}, "required": ["a", 1, None]},
        {"required": "a"},
        {"enum": 5, "properties": {"a": {"enum": None, "type": ["nonsense", {}]}}},
        {"properties": {"a": {"items": 7, "default": 1}}},
        {"additionalProperties": True, "nullable": True},
    ],
)
def test_a_schema_that_is_none_refuses_nothing(schema: dict[str, Any]) -> None:
    assert normalise("book", '{"a": [1]}', schema=schema) == OtherCall("book", {"a": [1]})
