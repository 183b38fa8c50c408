"""JSON values: strict decoding and sameness."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.tools import InvalidCall, decode_object, same_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, 1.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([], []), (None, None), (0.0, -0.0), (2**53, float(2**53))],
)
def test_values_of_one_meaning_are_the_same(left: object, right: object) -> None:
    assert same_json(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (0, False),
        (1, "1"),
        (None, False),
        (None, 0),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        ({"a": None}, {}),
        ("a", "a "),
        ("a", "A"),
        ({"a": [1]}, {"a": [True]}),
        (2**53 + 1, float(2**53)),
        ([], {}),
    ],
)
def test_values_of_two_meanings_are_not(left: object, right: object) -> None:
    assert not same_json(left, right)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not_json"),
        ("{", "not_json"),
        ('{"a": NaN}', "not_json"),
        ('{"a": -Infinity}', "not_json"),
        ("{'a': 1}", "not_json"),
        ('{"a": 1} x', "not_json"),
        ('{"a":' + "[" * 201 + "]" * 201 + "}", "not_json"),
        ("[" * 100_000, "not_json"),
        ('{"command": "rm -rf /", "command": "ls"}', "not_json"),
        ('{"a": [{"b": 1, "b": 1}]}', "not_json"),
        ('{"a": 1, "\\u0061": 1}', "not_json"),
        ('{"a": "\\ud800"}', "not_json"),
        ('{"a": ["\ud800"]}', "not_json"),
        ('{"a": "\n"}', "not_json"),
        ("[]", "not_object"),
        ("null", "not_object"),
        ('"text"', "not_object"),
        ("1", "not_object"),
    ],
)
def test_what_is_no_object_is_refused_with_the_reason(text: str, reason: str) -> None:
    value = decode_object(text, unique=True)
    assert isinstance(value, InvalidCall)
    assert value.reason == reason


def test_a_pair_of_surrogates_is_the_character_they_stand_for() -> None:
    assert decode_object('{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


def test_the_refusal_of_a_repeated_key_names_it() -> None:
    text = '{"a": 1, "b": 2, "a": 2}'
    assert decode_object(text) == {"a": 2, "b": 2}
    found = decode_object(text, unique=True)
    assert isinstance(found, InvalidCall)
    assert "'a' stands twice" in found.detail


def test_depth_does_not_stop_a_comparison() -> None:
    def deep() -> object:
        value: object = 0
        for _ in range(50_000):
            value = [value]
        return value

    assert same_json(deep(), deep())


@settings(max_examples=60, deadline=None)
@given(JSON, JSON)
def test_sameness_is_reflexive_and_symmetric(left: object, right: object) -> None:
    assert same_json(left, left)
    assert same_json(left, right) == same_json(right, left)
