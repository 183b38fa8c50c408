"""Claims on kinds of messages and on the terms that a text must mention."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.resources_servers.pivot.semantic.message_kinds import spoken_text
from paddock.resources_servers.pivot.semantic.terms import mentioned_words, terms_of

Score = Callable[..., Any]
KINDS = [
    ("Which ticket shall I cancel?", "question"),
    ("To go on I'll need the **event ID**. Once I have it, I can look it up.", "question"),
    ("Please give me the booking number.", "question"),
    ("どのチケットをキャンセルしますか", "question"),
    ("The total is $1,286. Do you want to proceed?", "question"),
    ("I can't find the booking. Could you share its number?", "question"),
    ("I'm sorry, but I can't change the booking of another user.", "refusal"),
    ("No.", "refusal"),
    ("I was unable to reproduce the crash.", "refusal"),
    ("The tests still fail.", "refusal"),
    ("Fixed; all tests pass.", "handover"),
    ("Your refund is on its way. Let me know if you have any questions!", "handover"),
    ("Done. Is there anything else I can help with?", "handover"),
    ("## Why did it fail?\n\nThe cache kept old entries.", "handover"),
    ("I replaced `a ? b : c`.", "handover"),
    ("Fixed it:\n```\nwhich one?\n```", "handover"),
    ("I need to look at the code first.", "handover"),
]
TERMS = [
    ("See /testbed/src/a_b.py, and `Cache.get`.", [{"a_b", "py"}, {"cache", "get"}]),
    ("User **S901** has 103 seats and 3 tickets", [{"s901"}, {"103"}]),
    ("It costs $1,286 and/or more, e.g. less.", [{"1286"}]),
    ("call parse_args() with --no-color", [{"parse_args"}, {"no", "color"}]),
    ("the `pytest` run of fooBar", [{"pytest"}, {"foobar"}]),
    ("Nothing here. At all; one word/two", []),
    ("text\n```\nx_y = 12\n```\n", []),
]


@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_a_text_is_of_one_kind(text: str, kind: str) -> None:
    assert spoken_text(text).kind == kind


@pytest.mark.parametrize(("text", "terms"), TERMS)
def test_terms_are_the_words_that_name_something(text: str, terms: list[set[str]]) -> None:
    assert terms_of(text) == frozenset(map(frozenset, terms))


@given(st.text(st.sampled_from("ab_AB1/. `\n#?-$,()"), max_size=80))
def test_every_text_mentions_its_own_terms(text: str) -> None:
    words = mentioned_words(text)
    assert all(term <= words for term in terms_of(text))


ASKS_ID = (
    "I've found your account S901, code W123. To proceed I'll need the **event ID** of the contest. "
    "Could you share the event ID? Let me know how you'd like to proceed!"
)
FIXED = "The bug in `Cache.get` (src/cache.py) is fixed: entries expire after `ttl_s`. All 12 tests pass."


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (ASKS_ID, "Thanks! What is the event ID of the contest?", True),
        (ASKS_ID, "I found your account S901, code W123, and the event ID of the contest. All is done.", False),
        (ASKS_ID, "I found your account S901, code W123. Which section do you want to sit in?", False),
        (ASKS_ID, "I can't share the event ID of the contest.", False),
        ("The total is $1,286. Do you want to proceed?", "It comes to $1286 in total. Shall I proceed?", True),
        ("The total is $1,286. Do you want to proceed?", "It comes to $99 in total. Shall I proceed?", False),
        (FIXED, "`get` of `Cache` compared ms with seconds; fixed, entries now expire after ttl_s.", True),
        (FIXED, "Entries of the cache expire; the bug is fixed and tests pass.", False),
        (FIXED, "Is the bug in Cache.get in src/cache.py? Shall 12 entries expire after ttl_s?", False),
        (FIXED, "Cache.get in src/cache.py is not fixed: 12 tests fail after ttl_s, entries expire.", False),
        ("Hello!", "Hi there, what is it?", True),
        ("Hello!", "I can't help with that.", False),
    ],
)
def test_a_message_passes_by_its_kind_and_its_terms(score: Score, expected: str, actual: str, same: bool) -> None:
    for said, came in ((expected, actual), *((("finish", {"message": text}) for text in (expected, actual)),)):
        found = score(said, came)
        assert (found.reward == 1.0) is same, found.detail
        assert same or found.reason == "text_differs"


def test_by_option_no_term_need_be_mentioned(score: Score) -> None:
    vague = "Entries of the cache expire; the bug is fixed and tests pass."
    assert score(FIXED, vague, text_shared_terms=0).reward == 1.0
    assert score(FIXED, FIXED.replace("12", "13"), text_shared_terms=1).reward == 0.0


def test_a_question_by_a_tool_is_compared_as_one_in_a_message_is(score: Score) -> None:
    def question(text: str) -> Any:
        return "question", {"questions": [{"question": text, "header": "h", "options": []}]}

    assert score(question("Which database, `pg_main` or another?"), question("Use database pg_main?")).reward == 1.0
    assert score(question("Which database, `pg_main` or another?"), question("Which colour?")).reason == "text_differs"
