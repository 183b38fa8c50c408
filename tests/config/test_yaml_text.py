"""YAML in and out."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.config.yaml_text import dump, parse
from paddock.errors import ConfigError

AWKWARD: list[Any] = [
    "1e-6", "1e5", "1.5", "12", "true", "null", "", "2024-01-01", "a: b", "${oc.env:X}", "???", "~", "- x", "#c",
    "line\nbreak", " lead", "é", ".inf", "0x10", "yes", "'q'", "x" * 3000, 1e-6, 1e22, 0.1, 5, True, False, None,
    [], {}, [[1], {"a": [None]}], {"1": "one", "true": 2, "a.b": 3}, float("inf"),
]  # fmt: skip


@pytest.mark.parametrize("value", AWKWARD, ids=lambda value: repr(value)[:20])
def test_what_is_written_reads_back(value: Any) -> None:
    tree = {"k": value, "again": value}
    assert parse(dump(tree), "here").tree == tree


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_any_plain_value_reads_back(value: Any) -> None:
    assert parse(dump({"k": value}), "here").tree == {"k": value}


def test_numbers_and_dates_are_read_as_omegaconf_reads_them() -> None:
    tree = parse("a: 1e-6\nb: 2024-01-01\nc: 1_000\nd: .5\ne: 0.0", "here").tree
    assert tree == {"a": 1e-6, "b": "2024-01-01", "c": 1000, "d": 0.5, "e": 0.0}


def test_every_key_has_its_line_in_lists_too() -> None:
    lines = parse("a:\n  b: 1\n  c:\n  - x: 1\n  - {y: 2}\n", "here").lines
    assert lines == {("a",): 1, ("a", "b"): 2, ("a", "c"): 3, ("a", "c", "0", "x"): 4, ("a", "c", "1", "y"): 5}


def test_anchors_and_merge_keys_work_and_may_be_overridden() -> None:
    text = "a: &a {x: 1, y: 1}\nb:\n  <<: *a\n  y: 2\nc: *a\n"
    assert parse(text, "here").tree == {"a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 2}, "c": {"x": 1, "y": 1}}


def test_an_empty_file_is_an_empty_config() -> None:
    assert parse("", "here").tree == parse("# only words\n", "here").tree == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1, 2\nb: 3\n", "c.yaml:2: no valid YAML: did not find expected ',' or ']' at column "),
        ("a: 1\n b: 2\n", "c.yaml:2: no valid YAML: mapping values are not allowed in this context at column "),
        ("a: 'x\n", "c.yaml:2: no valid YAML: found unexpected end of stream at column "),
    ],
)
def test_broken_yaml_is_told_by_file_and_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse(text, "c.yaml")
