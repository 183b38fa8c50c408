"""Claims about stopping a collection in which nothing works: for one cause, never after a success, and resumable."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from paddock.collect import CollectionResult, EvalSettings, FailedAttempt, Plan
from paddock.collect.journal import Breaker

MakeCase = Callable[..., Plan]
RunPlan = Callable[..., Awaitable[CollectionResult]]
ReadLines = Callable[..., list[dict[str, Any]]]


def failed(kind: str = "connection", **known: Any) -> FailedAttempt:
    base = {"group_id": 0, "member": 0, "attempt": 0, "agent": "a", "message": "no\nroute", "at": 0.0}
    return FailedAttempt.model_validate({**base, "outcome": "infra", "owner": "infra", "kind": kind, **known})


def test_it_opens_after_as_many_failures_of_one_cause() -> None:
    breaker = Breaker(3)
    for _ in range(2):
        breaker.failure(failed(stage="model"))
    assert not breaker.open.is_set()
    breaker.failure(failed(stage="model"))
    assert breaker.open.is_set()
    assert breaker.why == "stopped: the last 3 attempts all failed with connection in stage model: no route"


@pytest.mark.parametrize(
    "between",
    [
        lambda breaker: breaker.verdict(),
        lambda breaker: breaker.failure(failed("timeout")),
        lambda breaker: breaker.failure(failed(stage="verify")),
        lambda breaker: breaker.failure(failed(owner="us")),
    ],
)
def test_a_verdict_or_another_cause_begins_the_count_anew(between: Callable[[Breaker], None]) -> None:
    breaker = Breaker(3)
    for nth in range(8):
        breaker.failure(failed())
        if nth % 2:
            between(breaker)
    assert not breaker.open.is_set()


def test_rows_and_leaks_say_nothing_of_the_machine() -> None:
    breaker = Breaker(2)
    for _ in range(9):
        breaker.failure(failed(outcome="row", owner="row"))
        breaker.failure(failed(outcome="leak", owner="policy"))
    assert not breaker.open.is_set()


@pytest.mark.parametrize(
    ("given", "limit"),
    [({}, 192), ({"concurrency": 2}, 20), ({"max_attempts": 9}, 576), ({"stop_after_failures": 0}, 0)],
)
def test_the_limit_is_what_all_in_flight_may_try(given: dict[str, int], limit: int) -> None:
    assert EvalSettings(**given).failures_limit == limit


async def test_a_run_in_which_every_attempt_fails_stops_and_can_be_resumed(
    make_case: MakeCase, run_plan: RunPlan, read_lines: ReadLines
) -> None:
    case = {"concurrency": 2, "max_attempts": 2}
    collected = await run_plan(make_case(60, model={"fail_first": 10_000}, **case))
    assert (collected.how, collected.n_verdicts) == ("one_cause", 0)
    assert str(collected.why).startswith("stopped: the last 20 attempts all failed with upstream_status in stage model")
    assert 20 <= len(read_lines("failures.jsonl")) < 30
    again = await run_plan(make_case(60, model={"fail_first": 10_000}, stop_after_failures=0, **case), resume=True)
    assert (again.how, again.summary[0]["outcomes"]) == ("finished", {"infra": 60})


async def test_a_run_with_a_verdict_now_and_then_goes_on(make_case: MakeCase, run_plan: RunPlan) -> None:
    rows = [
        {"responses_create_params": {"input": "q"}, "answer": "yes", **({} if nth % 6 == 5 else {"grade": "infra"})}
        for nth in range(36)
    ]
    collected = await run_plan(make_case(rows, concurrency=1, max_attempts=3, stop_after_failures=20))
    assert collected.how == "finished"
    assert collected.n_verdicts == 6
