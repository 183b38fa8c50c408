"""Claims about head and tail: within the budget, whole steps, what is left out is said, and few branches."""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.harness.context import ContextSettings, HeadTail, make_context
from paddock.harness.context.settings import NOTICE
from paddock.harness.context.token_estimators import texts
from paddock.harness.contract import ContextExceeded
from paddock.harness.native.history import History
from paddock.types import JsonObject, Usage

FIXED: list[JsonObject] = [{"role": "system", "content": "Be good."}, {"role": "user", "content": "Go. " * 10}]
TOOLS: list[JsonObject] = [{"type": "function", "name": "bash", "description": "Runs. " * 20}]
START_TOKENS = 21
"""What the engine counts beside the items: tools and the start of its answer."""


class HistorySetup(NamedTuple):
    """One step of a rollout, before it has happened."""

    answer: int
    results: int
    """Characters."""
    note: bool


def step(number: int, made: HistorySetup) -> list[JsonObject]:
    call_id = f"c{number}"
    return [
        {"type": "function_call", "call_id": call_id, "name": "bash", "arguments": "a" * made.answer},
        {"type": "function_call_output", "call_id": call_id, "output": "r" * made.results},
    ]


def engine_tokens(items: Sequence[JsonObject]) -> int:
    """As an engine counts: a token per four characters, and five marks per item."""
    return sum(5 + sum(len(text) for text in texts(item)) // 4 for item in items)


class RequestRecord(NamedTuple):
    """One request."""

    items: list[JsonObject]
    steps: list[list[JsonObject]]
    """Of the history then."""
    tokens: int
    """As the engine counts."""


class ContextRun:
    """A loop without a model: the requests that a context makes of steps."""

    def __init__(self, context: HeadTail, made: list[HistorySetup], *, counts: bool) -> None:
        self.asked: list[RequestRecord] = []
        self.left_out: list[tuple[int, int] | None] = []
        self.exceeded = False
        history = History(FIXED)
        for number, each in enumerate(made):
            try:
                items = context.fit(history)
            except ContextExceeded:
                self.exceeded = True
                return
            tokens = START_TOKENS + engine_tokens(items)
            self.asked.append(RequestRecord(items, [[*one] for one in history.steps], tokens))
            self.left_out.append(context.omitted)
            both = step(number, each)
            answer = engine_tokens(both[:1])
            context.record_usage(Usage(input_tokens=tokens, output_tokens=answer) if counts else Usage())
            history.add(both)
            if each.note:
                history.note(f"Note {number}.")


def run(made: list[HistorySetup], *, counts: bool = True, **settings: float) -> ContextRun:
    context = make_context(ContextSettings.model_validate(settings), {"tools": TOOLS})
    assert isinstance(context, HeadTail)
    return ContextRun(context, made, counts=counts)


steps = st.lists(st.builds(HistorySetup, st.integers(0, 200), st.integers(0, 2000), st.booleans()), max_size=25)
settings = st.fixed_dictionaries(
    {
        "max_tokens": st.integers(200, 3000),
        "head_share": st.floats(0, 1),
        "refill_share": st.floats(0, 1),
    }
)


@given(steps, settings, st.booleans())
def test_no_request_is_over_the_budget(made: list[HistorySetup], given: dict[str, float], counts: bool) -> None:
    for asked in run(made, counts=counts, **given).asked:
        assert asked.tokens <= given["max_tokens"]


class Exact:
    """Measures as the engine counts; the only text outside of items are the tools."""

    def tokens(self, items: Sequence[JsonObject]) -> int:
        return engine_tokens(items)

    def text_tokens(self, text: str) -> int:
        return START_TOKENS

    def calibrate(self, items: Sequence[JsonObject], tokens: int) -> None:
        return


@given(steps, settings, st.booleans())
def test_with_exact_lengths_the_budget_is_kept_and_a_run_ends_only_where_nothing_fits(
    made: list[HistorySetup], given: dict[str, Any], counts: bool
) -> None:
    context = HeadTail(**given, notice=NOTICE, estimator=Exact(), tools=TOOLS)
    ran = ContextRun(context, made, counts=counts)
    assert all(asked.tokens <= given["max_tokens"] for asked in ran.asked)
    if ran.exceeded:
        done = len(ran.asked)
        last = step(done - 1, made[done - 1]) if done else []
        notes = 1 if done and made[done - 1].note else 0
        longest = engine_tokens([*FIXED, *last]) + START_TOKENS + 20 * notes + 50
        assert longest > given["max_tokens"]


@given(steps, settings, st.booleans())
def test_a_request_is_the_fixed_part_a_head_a_notice_and_a_tail_of_whole_steps(
    made: list[HistorySetup], given: dict[str, float], counts: bool
) -> None:
    ran = run(made, counts=counts, **given)
    for asked, left_out in zip(ran.asked, ran.left_out, strict=True):
        head, tail = asked.steps, []
        notice: list[JsonObject] = []
        if left_out is not None:
            first, end = left_out
            assert 0 <= first < end < len(asked.steps)
            head, tail = asked.steps[:first], asked.steps[end:]
            assert asked.items[len(FIXED) + sum(map(len, head))]["content"].count(f"{end - first} of the earlier") == 1
            notice = [asked.items[len(FIXED) + sum(map(len, head))]]
        assert asked.items == [*chain(FIXED, *head, notice, *tail)]


@given(steps, settings, st.booleans())
def test_while_a_range_is_left_out_requests_continue_each_other(
    made: list[HistorySetup], given: dict[str, float], counts: bool
) -> None:
    ran = run(made, counts=counts, **given)
    for (before, after), (was, now) in zip(pairwise(ran.asked), pairwise(ran.left_out), strict=True):
        continues = after.items[: len(before.items)] == before.items
        assert continues == (was == now)


@given(steps, settings)
def test_what_is_left_out_is_needed(made: list[HistorySetup], given: dict[str, float]) -> None:
    """A new range is left out only where going on would be over the budget, by what is known before the request."""
    ran = run(made, counts=True, **given)
    for (before, after), (was, now) in zip(pairwise(ran.asked), pairwise(ran.left_out), strict=True):
        if was != now:
            grown = after.steps[-1]
            known = before.tokens + engine_tokens(grown[:1])
            guessed = sum(8 + sum(len(text) for text in texts(item)) // 3 + 1 for item in grown[1:])
            assert known + guessed > given["max_tokens"] - 8


@given(st.integers(1500, 9000), st.integers(4, 99), st.integers(0, 200))
def test_ranges_are_left_out_once_per_so_many_tokens_not_per_step(budget: int, count: int, results: int) -> None:
    ran = run([HistorySetup(20, results, note=False)] * count, max_tokens=budget)
    size = engine_tokens(step(0, HistorySetup(20, results, note=False)))
    room = 0.7 * (budget - START_TOKENS - engine_tokens(FIXED)) - 100
    ranges = len(set(ran.left_out) - {None})
    assert ranges <= 1 + count / (room / 2 / size - 2)


def test_the_head_keeps_its_share_and_the_tail_grows_to_the_budget() -> None:
    ran = run([HistorySetup(0, 360, note=False)] * 30, max_tokens=1000 + START_TOKENS + engine_tokens(FIXED))
    # A step takes 101 tokens: two are within 30 % of 1000, three within half of what the head and the notice leave.
    found = [left_out for left_out in ran.left_out if left_out is not None]
    assert {first for first, _ in found} == {2}
    assert found[0] == (2, 7)
    lengths = [found.count(each) for each in dict.fromkeys(found)]
    assert set(lengths[:-1]) <= {4, 5}
    assert max(asked.tokens for asked in ran.asked) > 900


def test_a_first_step_that_is_larger_than_the_heads_share_leaves_it_to_the_tail() -> None:
    made = [HistorySetup(0, 2000, note=False), *[HistorySetup(0, 100, note=False)] * 60]
    ran = run(made, max_tokens=1200, refill_share=1)
    found = [left_out for left_out in ran.left_out if left_out is not None]
    assert {first for first, _ in found} == {0}
    assert min(asked.tokens for asked in ran.asked[-20:]) > 1100


def test_many_ranges_one_after_the_other_add_up_to_no_error_in_what_is_counted() -> None:
    ran = run([HistorySetup(0, 100, note=False)] * 60, max_tokens=1200, refill_share=1, head_share=0)
    assert len(set(ran.left_out)) > 10
    assert max(asked.tokens for asked in ran.asked) <= 1200


def test_a_last_step_that_is_larger_than_the_tails_room_takes_it_from_the_head() -> None:
    ran = run(
        [*[HistorySetup(0, 360, note=False)] * 4, HistorySetup(0, 2400, note=False), HistorySetup(0, 0, note=False)],
        max_tokens=1000,
    )
    assert ran.left_out[-1] == (0, 4)
    assert not ran.exceeded


@pytest.mark.parametrize("counts", [True, False])
def test_a_last_step_that_fits_in_no_way_ends_the_run(counts: bool) -> None:
    ran = run(
        [HistorySetup(0, 10, note=False), HistorySetup(0, 9000, note=False), HistorySetup(0, 0, note=False)],
        max_tokens=900,
        counts=counts,
    )
    assert (ran.exceeded, len(ran.asked)) == (True, 2)


def test_a_fixed_part_that_is_over_the_budget_is_never_asked() -> None:
    context = make_context(ContextSettings(max_tokens=30), {})
    with pytest.raises(ContextExceeded, match="over the budget of 30"):
        context.fit(History(FIXED))


def test_tools_count_before_the_engine_has_counted_them() -> None:
    tools = [{"type": "function", "name": "bash", "description": "x" * 900}]
    with pytest.raises(ContextExceeded):
        make_context(ContextSettings(max_tokens=300), {"tools": tools}).fit(History(FIXED))


def test_the_items_are_the_histories_own() -> None:
    history = History(FIXED)
    context = make_context(ContextSettings(max_tokens=200), {})
    for number in range(12):
        context.fit(history)
        history.add(step(number, HistorySetup(0, 120, note=False)))
    known = {id(item) for items in (history.fixed, *history.steps) for item in items}
    shown = context.fit(history)
    assert sum(id(item) not in known for item in shown) == 1
