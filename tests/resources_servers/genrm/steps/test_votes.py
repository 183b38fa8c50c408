"""Claims about which answers are votes, and which are none."""

import pytest

from paddock.resources_servers.genrm.steps.votes import read_vote
from paddock.types import JsonObject
from paddock.types.responses import make_response, message_item


def answer(text: str, **known: object) -> JsonObject:
    return {**make_response([message_item(text)], {}, model="judge"), **known}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"It looks right. \boxed{1}", 1),
        (r"\boxed{+1}", 1),
        (r"\boxed{-1}", -1),
        (r"\boxed { -1 } and no more", -1),
        (r"<think>first \boxed{1}, then</think> \boxed{-1}", -1),
        (r"\boxed{1} then \boxed{-1}: the first counts", 1),
    ],
)
def test_the_first_boxed_value_is_the_vote(text: str, value: int) -> None:
    assert read_vote(answer(text)) == (value, None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1", "no_box"),
        ("", "no_box"),
        (r"\boxed{0}", "other_content"),
        (r"\boxed{0.5} or rather \boxed{1}", "other_content"),
        (r"\boxed{\text{1}}", "other_content"),
        (r"\boxed{+ 1}", "other_content"),
        (r"\boxed{1 or -1}", "other_content"),
        (r"\boxed{-1", "other_content"),
        (r"<think>surely \boxed{1}", "unfinished_thinking"),
        (r"<think>a \boxed{1}</think> and <think>b", "unfinished_thinking"),
    ],
)
def test_anything_else_is_no_vote(text: str, why: str) -> None:
    assert read_vote(answer(text)) == (None, why)


def test_an_answer_that_is_not_whole_or_none_at_all_is_no_vote() -> None:
    cut = answer(r"\boxed{1}", status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    replies: list[object] = [cut, answer(r"\boxed{1}", status="failed"), None, "text", []]
    assert [read_vote(reply) for reply in replies] == [(None, "incomplete")] * 5


def test_reasoning_is_no_answer() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": r"\boxed{1}"}]}
    assert read_vote(make_response([thought], {}, model="judge")).missing == "no_box"
