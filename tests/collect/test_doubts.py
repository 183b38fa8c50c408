"""Claims about failures that the policy may have caused: such a one buys one more attempt, however often it is made."""

from collections.abc import Callable
from typing import Any

import pytest

from paddock.collect import Plan

AGENT = {
    "agents": {
        "tests.collect.doubtful_agent:DoubtfulAgent": {
            "resources_server": {"type": "resources_servers", "name": "environment"},
            "model_server": {"type": "models_servers", "name": "policy"},
        }
    }
}


def row(*words: str, **more: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": "q"}, "answer": "yes", "plan": words, **more}


def told(read_lines: Callable[..., list[dict[str, Any]]]) -> tuple[list[bool], list[float]]:
    """Which failed attempts were in doubt; the rewards."""
    failures, rollouts = read_lines("failures.jsonl"), read_lines("rollouts.jsonl")
    return [line.get("doubtful", False) for line in failures], [line["reward"] for line in rollouts]


@pytest.mark.parametrize("max_attempts", [1, 2, 3, 8])
async def test_who_always_ends_in_doubt_has_one_attempt_more_and_then_a_verdict(
    make_case: Callable[..., Plan], run_plan: Any, read_lines: Any, max_attempts: int
) -> None:
    await run_plan(make_case([row("doubt")], top={"doubting": AGENT}, agent="doubting", max_attempts=max_attempts))
    assert told(read_lines) == ([True], [0.0])
    [stored] = read_lines("rollouts.jsonl")
    assert (stored["_paddock_doubts"], stored["_ng_attempt_index"]) == (1, 1)


@pytest.mark.parametrize(
    ("words", "failed", "rewards"),
    [
        (("doubt", "ok"), [True], [1.0]),
        (("infra", "doubt", "ok"), [False, True], [1.0]),
        (("infra", "infra", "doubt", "doubt"), [False, False, True], [0.0]),
        (("doubt", "infra", "doubt"), [True, False], [0.0]),
        (("doubt", "infra", "infra", "infra"), [True, False, False], []),
        (("infra",), [False, False, False], []),
    ],
)
async def test_doubt_is_counted_over_all_attempts_and_the_machines_failures_are_not(
    make_case: Callable[..., Plan],
    run_plan: Any,
    read_lines: Any,
    words: tuple[str, ...],
    failed: list[bool],
    rewards: list[float],
) -> None:
    await run_plan(make_case([row(*words)], top={"doubting": AGENT}, agent="doubting"))
    assert told(read_lines) == (failed, rewards)


async def test_a_resumed_run_counts_on(make_case: Callable[..., Plan], run_plan: Any, read_lines: Any) -> None:
    plan = make_case([row("doubt", "infra", "infra", "doubt")], top={"doubting": AGENT}, agent="doubting")
    await run_plan(plan)
    assert told(read_lines) == ([True, False, False], [])
    await run_plan(plan, resume=True)
    assert told(read_lines) == ([True, False, False], [0.0])


async def test_an_agent_that_knows_no_doubt_is_not_asked_a_third_time(
    make_case: Callable[..., Plan], run_plan: Any, read_lines: Any
) -> None:
    plan = make_case([row("doubt", knows=False)], top={"doubting": AGENT}, agent="doubting", max_attempts=8)
    await run_plan(plan)
    assert told(read_lines) == ([True, True], [])
    await run_plan(plan, resume=True)
    assert told(read_lines) == ([True, True, True], [])


async def test_a_row_without_doubt_is_stamped_as_before(
    make_case: Callable[..., Plan], run_plan: Any, read_lines: Any
) -> None:
    await run_plan(make_case([row("infra", "ok")], top={"doubting": AGENT}, agent="doubting"))
    assert ["_paddock_doubts" in line for line in read_lines("rollouts.jsonl")] == [False]
