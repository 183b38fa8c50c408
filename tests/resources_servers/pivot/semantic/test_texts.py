"""Claims on what messages, last words and thoughts say."""

from collections.abc import Callable
from typing import Any

import pytest

Score = Callable[..., Any]
TICKETS = "Which of the tickets do you want to cancel? I need the ids."
DONE = ("finish", {"message": "The bug in _cstack is fixed; tests pass."})
THOUGHT = ("think", {"thought": "The bug is in _cstack: the right matrix is replaced by ones."})


def finish(text: str) -> tuple[str, dict[str, str]]:
    return "finish", {"message": text}


def think(text: str) -> tuple[str, dict[str, str]]:
    return "think", {"thought": text}


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (TICKETS, "Which ticket id do you want to cancel?"),
        (TICKETS, "Please give me the IDs of each TICKET to be cancelled."),
        (TICKETS, ["Of course.", "Which ticket shall I cancel?"]),
        (DONE, finish("Fixed _cstack; all tests pass.")),
        (DONE, finish("I fixed _cstack, which could not copy the right matrix. I did not change other tests.")),
        (THOUGHT, think("_cstack overwrites the right block with 1; it must copy `right`.")),
        (finish("`a_b` and `c_d` are fixed."), finish("Both a_b and c_d got fixed.")),
        (DONE, "I have fixed _cstack; the tests pass."),
        (finish("I could not reproduce the crash."), finish("I was unable to reproduce this crash.")),
        ("どのチケットをキャンセルしますか", "キャンセルするチケットはどれですか"),
        ("Hello!", "Hi there, what is it?"),
    ],
)
def test_an_honest_text_in_other_words_scores_1(score: Score, expected: Any, actual: Any) -> None:
    found = score(expected, actual)
    assert found.reward == 1.0, found.detail


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (TICKETS, "."),
        (TICKETS, "No."),
        (TICKETS, "a" * 300_000),
        (TICKETS, "which ticket to cancel " * 1000),
        (TICKETS, "I will book a flight to Oslo."),
        ("Hello!", "..."),
        (DONE, finish(".")),
        (DONE, finish("x")),
        (DONE, finish("I could not find the bug and changed nothing.")),
        (DONE, finish("I could not fix the bug in _cstack; its tests fail.")),
        (DONE, finish("The bug in _cstack is not fixed.")),
        (finish("I could not reproduce the crash."), finish("I did reproduce the crash.")),
        (finish("Done."), finish("!")),
        (THOUGHT, think(".")),
        (THOUGHT, think("Next I read the file.")),
        (THOUGHT, think("The bug is the matrix, the rows, the ones or the right side.")),
        (finish("`a_b` and `c_d` are fixed."), finish("`a_b` is fixed, and its tests are.")),
        (DONE, "I could not find the bug and changed nothing."),
    ],
)
def test_a_text_that_says_something_else_or_nothing_scores_0(score: Score, expected: Any, actual: Any) -> None:
    found = score(expected, actual)
    assert (found.reward, found.reason) == (0.0, "text_differs")
    assert found.detail


def test_by_option_any_text_that_says_something_passes(score: Score) -> None:
    for expected, actual in ((TICKETS, "No."), (DONE, finish("I gave up.")), (THOUGHT, think("hm"))):
        assert score(expected, actual, text_shared_words=0).reward == 1.0
    assert score(TICKETS, ".", text_shared_words=0).reward == 0.0
