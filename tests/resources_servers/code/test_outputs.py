"""Claims about programs in responses, and about which outputs are the expected ones."""

import time
from typing import Any

import pytest
from pydantic import ValidationError

from paddock.resources_servers.code.outputs import same_text, same_value
from paddock.resources_servers.code.task import UnitTests, program_of
from paddock.types.responses import message_item


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("```python\nprint(1)\n```", "print(1)"),
        ("```\nprint(1)\n```\nthen\n```py\nprint(2)\n```\nDone.", "print(2)"),
        ("```python\nprint(1)\n```\n```python\nprint(2)", "print(1)"),
        ("<think>```\n1\n```</think>```\n2\n```", "2"),
        ("print(1)", None),
        ("```python\n\n```", None),
        ("<think>```\n1\n```", None),
        ("", None),
    ],
)
def test_the_program_is_the_last_closed_block(text: str, program: str | None) -> None:
    assert program_of({"output": [message_item(text)]}) == program


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        ("1\n2\n", "1\n2"),
        ("1 2", "1 2 \r\n\n"),
        ("1.5", "1.50"),
        ("100", "1e2"),
        ("a 1", "a 1"),
        ("0.1 0.2", "0.10 0.20"),
        ("YES", "YES\n"),
        ("", "\n"),
    ],
)
def test_texts_that_are_the_same(expected: str, given: str) -> None:
    assert same_text(expected, given)


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        ("1", "1\n2"),
        ("1", ""),
        ("1", "1 2 3"),
        ("YES", "yes"),
        ("0.333", "0.3333333"),
        ("50000000000000000", "50000000000000001"),
        ("nan", "NaN"),
        ("1", "0\n1"),
        ("2", "1 or 2"),
        ("a b", "ab"),
    ],
)
def test_texts_that_are_not(expected: str, given: str) -> None:
    assert not same_text(expected, given)


@pytest.mark.parametrize(
    "tests",
    [
        {"inputs": [], "outputs": []},
        {"inputs": ["1", "2"], "outputs": ["", " \n"]},
        {"inputs": ["1"], "outputs": ["null"], "fn_name": "f"},
        {"inputs": ["1", "2"], "outputs": ["1"]},
        {"inputs": ["1"], "outputs": [None]},
    ],
)
def test_tests_that_a_program_without_effect_passes_are_none(tests: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        UnitTests.model_validate(tests)


def test_some_outputs_may_be_empty() -> None:
    assert UnitTests.model_validate({"inputs": ["0", "1"], "outputs": ["", "1"]}).outputs == ["", "1"]


def test_numbers_of_many_digits_cost_nothing() -> None:
    started = time.monotonic()
    assert not same_text("1", "1e999999999")
    assert not same_text("1", "9" * 1_000_000)
    assert not same_text("1 " * 10, "1e99999999 " * 10)
    assert not same_value("1", "[" * 100_000)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("expected", "given", "same"),
    [
        ("3", "3", True),
        ("3", "3.0", True),
        ("0.3333333", "0.33333333", True),
        ("[1, 2]", "[1, 2]", True),
        ("[1, 2]", "[2, 1]", False),
        ("[0.1]", "[0.1000000001]", True),
        ("true", "true", True),
        ("true", "false", False),
        ('"a"', '"a"', True),
        ('"a"', '"b"', False),
        ("3", '"3"', False),
        ("null", "null", True),
        ("null", "", False),
        ("1", "1\n1", False),
        ('{"a": 1}', '{"a": 1}', True),
        ('{"a": 1}', '{"a": 1, "b": 2}', False),
        ("1", "NaN", False),
        ("[NaN, 1]", "[NaN, 1.0]", True),
        ("1.5", "1" + "0" * 400, False),
        ("1" + "0" * 400, "1.5", False),
    ],
)
def test_values(expected: str, given: str, same: bool) -> None:
    assert same_value(expected, given) == same
