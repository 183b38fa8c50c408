"""The likeness of texts is difflib's exact ratio, at a cost that is bounded."""

import inspect
import json
import random
from collections.abc import Iterator
from difflib import SequenceMatcher

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.resources_servers.pivot import layered
from paddock.resources_servers.pivot.layered_similarity import similarity
from paddock.resources_servers.pivot.task import read_expected
from paddock.types.responses import call_item

SOURCE = inspect.getsource(json.decoder) + inspect.getsource(random)
MIDDLE = "return total if value else other\n" * 8


def ratio(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def test_a_long_middle_of_frequent_characters_counts() -> None:
    one, other = f"x{MIDDLE}y", f"q{MIDDLE}w"
    assert similarity(one, other) == ratio(one, other) > 0.99


def test_a_near_identical_edit_earns_1() -> None:
    def action(text: str) -> str:
        return json.dumps({"command": "str_replace", "path": "/r/a.py", "old_str": "a = 1", "new_str": text})

    call = {"type": "function_call", "name": "str_replace_editor", "arguments": action(f"x{MIDDLE}y")}
    response = {"output": [call_item("str_replace_editor", action(f"q{MIDDLE}w"))]}
    found = layered.compare(read_expected({"expected_action": call}), response, layered.LayeredOptions())
    assert (found.reward, found.reason) == (1.0, "match")


edits = st.tuples(
    st.floats(0, 1), st.integers(0, 12), st.sampled_from(["", "e", "\n    ", " return ", "None", "qz", "x" * 20])
)


@st.composite
def edited(draw: st.DrawFn) -> tuple[str, str]:
    """A stretch of code and what some edits make of it."""
    start = draw(st.integers(0, len(SOURCE) - 1))
    text = before = SOURCE[start : start + draw(st.sampled_from([3, 40, 250, 700]))]
    for where, removed, added in draw(st.lists(edits, max_size=25)):
        at = int(where * len(text))
        text = text[:at] + added + text[at + removed :]
    return before, text


@settings(max_examples=80, deadline=None)
@given(edited(), st.sampled_from([0.0, 0.3, 0.4, 0.8]))
def test_of_random_edits_the_ratio_is_exact_from_the_floor_up(pair: tuple[str, str], floor: float) -> None:
    one, other = pair
    exact, found = ratio(one, other) if one and other else float(one == other), similarity(one, other, floor)
    assert found == exact if exact >= floor else exact <= found < floor


@settings(max_examples=150, deadline=None)
@given(st.text("ab \n", max_size=40), st.text("ab \n", min_size=1, max_size=40))
def test_of_texts_of_few_characters_it_is_exact_too(one: str, other: str) -> None:
    assert similarity(one, other) == (ratio(one, other) if one else 0.0)


def texts() -> Iterator[tuple[str, str]]:
    """Pairs of 64 kB that are hard to align."""
    words = random.Random(0)
    base = (SOURCE * 3)[:64_000]
    yield base, "".join(words.sample(base, len(base)))
    yield base, "".join(words.sample(base.splitlines(keepends=True), base.count("\n")))
    yield "a" * 64_000, "a" * 32_000 + "b" + "a" * 31_999
    yield "ab" * 32_000, "ba" * 32_000
    yield "".join(words.choices("01", k=64_000)), "".join(words.choices("01", k=64_000))


@pytest.mark.slow
def test_hard_texts_are_given_up_below_the_ratio_at_worst() -> None:
    for one, other in texts():
        assert 0.0 <= similarity(one, other) <= SequenceMatcher(None, one, other).quick_ratio() + 1e-9


def test_more_text_than_is_judged_is_not_decided() -> None:
    call = {"type": "function_call", "name": "bash", "arguments": '{"command": "ls"}'}
    response = {"output": [call_item("bash", json.dumps({"command": "ls; " * 130_000}))]}
    found = layered.compare(read_expected({"expected_action": call}), response, layered.LayeredOptions())
    assert (found.reward, found.reason) == (0.0, "too_long")
