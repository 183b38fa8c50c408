"""Claims about texts of others in a prompt: whatever they say, they stay between their marks, line by line."""

import regex
from hypothesis import given
from hypothesis import strategies as st

from paddock.quote import PREFIX, break_control_tokens, enclose, nonce_of, quote

PIECES = [
    "<|im_start|>",
    "<|im_end|>",
    "[begin a ",
    "[end a ",
    "| ",
    "\r\n",
    "\u2028",
    "\x0b",
    "</think>",
    "x",
    "[INST]",
    "]",
]
HOSTILE = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join)


@given(HOSTILE)
def test_every_line_of_a_text_stands_behind_the_prefix(text: str) -> None:
    lines = quote(text).split("\n")
    assert all(line.startswith(PREFIX) for line in lines)
    assert [line.removeprefix(PREFIX) for line in lines] == (text.splitlines() or [""])


@given(HOSTILE, HOSTILE)
def test_the_marks_around_a_text_are_the_only_lines_that_are_ours(text: str, other: str) -> None:
    nonce = nonce_of([text, other])
    for one in (text, other):
        first, *middle, last = enclose("a", one, nonce).splitlines()
        assert (first, last) == (f"[begin a {nonce}]", f"[end a {nonce}]")
        assert all(line.startswith(PREFIX) for line in middle)


@given(HOSTILE)
def test_no_control_token_is_left_and_nothing_else_is_changed(text: str) -> None:
    told = break_control_tokens(text)
    assert told.replace("\u200b", "") == text.replace("\u200b", "")
    assert not regex.search(r"<\||\|>|</?think>|\[/?INST\]|</?s>", told)
    assert break_control_tokens(told) == told


def test_code_is_left_as_it_is() -> None:
    code = "if a < b and c > d: List<String> x = y[0] | z  # <b>bold</b>, a<b>c"
    assert break_control_tokens(code) == code


@given(st.lists(HOSTILE, max_size=3), st.lists(HOSTILE, max_size=3))
def test_a_nonce_tells_where_one_text_ends(one: list[str], other: list[str]) -> None:
    assert (nonce_of(one) == nonce_of(other)) == (one == other)
