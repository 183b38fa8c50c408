"""Claims about figures: they are those that a person counts, and nothing is called exact that the log doesn't have."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.lab.fidelity import Figures, LoggedCall, measure
from paddock.lab.fidelity.figures import distinct_tokens
from paddock.types import Turn, TurnRecord
from paddock.types.responses import message_item


def turn(name: str, parent: str | None, prompt: list[int], sampled: list[int], log_probs: list[float]) -> Turn:
    return Turn(
        id=name,
        parent=parent,
        prompt_ids=prompt,
        sampled_ids=sampled,
        log_probs=log_probs,
        weight_version="w",
        finish_reason="stop",
        request_hash=name,
        output=[message_item("x")],
    )


def recorded(*turns: Turn) -> TurnRecord:
    return TurnRecord(engine="exact", turns=list(turns))


def figures(record: TurnRecord, *log: LoggedCall, chars: int = 0) -> Figures:
    return measure(record, log, tokenised_chars=chars, decode=lambda ids: "x" * len(ids))


FIRST = turn("1", None, [1, 2, 3], [4, 5], [-0.1, -0.2])
SECOND = turn("2", "1", [6], [7], [-0.3])
OTHER = turn("3", "1", [8, 9], [10], [-0.4])
LOG = [
    LoggedCall([1, 2, 3], [4, 5], [-0.1, -0.2]),
    LoggedCall([1, 2, 3, 4, 5, 6], [7], [-0.3]),
    LoggedCall([1, 2, 3, 4, 5, 8, 9], [10], [-0.4]),
]


def test_one_line_of_turns_is_exact() -> None:
    found = figures(recorded(FIRST, SECOND), *LOG[:2], chars=4)
    assert found == Figures(
        verdict="exact",
        calls=2,
        continuing=1,
        branches=1,
        samples=1,
        sampled_tokens=3,
        dropped_tokens=0,
        dropped_whole_tokens=0,
        unproven_tokens=0,
        sample_tokens=7,
        distinct_tokens=7,
        tokenised_chars=4,
        final_chars=7,
    )
    assert (found.append_only, found.forks, found.prefix_factor, found.tokenising) == (1.0, 0, 1.0, 4 / 7)


def test_a_branch_is_split_and_its_prefix_counts_once() -> None:
    found = figures(recorded(FIRST, SECOND, OTHER), *LOG)
    assert (found.verdict, found.forks, found.samples, found.append_only) == ("split", 1, 2, 0.5)
    assert (found.sample_tokens, found.distinct_tokens, found.prefix_factor) == (7 + 8, 7 + 3, 1.5)
    assert (found.dropped_tokens, found.dropped_whole_tokens) == (0, 1)


def test_prefixes_that_two_roots_share_count_once_too() -> None:
    again = turn("2", None, [1, 2, 3, 9], [7], [-0.3])
    found = figures(recorded(FIRST, again), LOG[0], LoggedCall([1, 2, 3, 9], [7], [-0.3]))
    assert (found.sample_tokens, found.distinct_tokens, found.forks) == (5 + 5, 5 + 2, 1)


def test_an_answer_that_is_not_in_the_record_is_dropped() -> None:
    found = figures(recorded(FIRST), *LOG[:2])
    assert (found.verdict, found.dropped_tokens, found.dropped_whole_tokens) == ("masked", 1, 1)


def test_a_turn_that_was_never_sampled_is_unproven() -> None:
    found = figures(recorded(FIRST, SECOND), LOG[0])
    assert (found.verdict, found.unproven_tokens, found.dropped_tokens) == ("masked", 1, 0)


def test_one_call_proves_one_turn() -> None:
    twice = recorded(FIRST, SECOND, SECOND.model_copy(update={"id": "again"}))
    assert figures(twice, *LOG[:2]).unproven_tokens == 1


def test_turns_without_log_probs_are_masked() -> None:
    found = figures(recorded(FIRST, SECOND.model_copy(update={"log_probs": None})), *LOG[:2])
    assert (found.verdict, found.dropped_tokens) == ("masked", 1)


def test_an_engine_of_text_proves_nothing() -> None:
    found = figures(TurnRecord(engine="text", turns=[FIRST, SECOND]), *LOG[:2])
    assert (found.verdict, found.samples, found.dropped_tokens) == ("masked", 0, 3)


def test_no_calls_are_not_exact() -> None:
    assert figures(recorded()).verdict == "masked"


def test_distinct_tokens_are_the_nodes_of_a_tree() -> None:
    assert distinct_tokens([[1, 2, 3], [1, 2, 4], [1, 2], [5]]) == 5
    assert distinct_tokens([]) == 0


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_log_that_differs_anywhere_is_never_exact(data: Any) -> None:
    length = data.draw(st.integers(1, 5))
    turns: list[Turn] = []
    log: list[LoggedCall] = []
    before: list[int] = []
    for nth in range(length):
        new, said = (data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4)) for _ in range(2))
        log_probs = [-0.5 - at for at, _ in enumerate(said)]
        turns.append(turn(str(nth), str(nth - 1) if nth else None, new, said, log_probs))
        log.append(LoggedCall([*before, *new], said, log_probs))
        before += [*new, *said]
    assert figures(recorded(*turns), *log).verdict == "exact"
    which = data.draw(st.integers(0, length - 1))
    call = log[which]
    field = data.draw(st.sampled_from(("prompt", "sampled", "log_probs", "missing", "longer")))
    if field == "missing":
        del log[which]
    elif field == "longer":
        log[which] = call._replace(sampled=[*call.sampled, 0], log_probs=[*call.log_probs, -0.1])
    else:
        values = list(getattr(call, field))
        values[data.draw(st.integers(0, len(values) - 1))] += 1
        log[which] = call._replace(**{field: values})
    assert figures(recorded(*turns), *log).verdict == "masked"
