"""Claims about aggregate metrics: hand-computed values, and failures that never enter a mean."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.server.metrics import aggregate, pass_at_k


def reply(group: int | None, reward: float, **more: Any) -> dict[str, Any]:
    return {"_ng_task_index": group, "reward": reward, **more}


def test_means_and_pass_at_k_of_a_case_by_hand() -> None:
    replies = [reply(0, 1.0), reply(0, 0.0), reply(1, 0.0), reply(1, 0.5)]
    found = aggregate(replies)
    assert found.agent_metrics == {
        "mean/reward": 0.375,
        "pass@1/accuracy": 0.25,
        "pass@2/accuracy": 0.5,
        "failures": 0.0,
    }
    assert found.key_metrics == {"mean/reward": 0.375, "pass@1/accuracy": 0.25}
    assert [group["mean/reward"] for group in found.group_level_metrics] == [0.5, 0.25]


def test_numbers_of_the_verdict_are_averaged_and_stamps_are_not() -> None:
    found = aggregate([reply(7, 1.0, verdict={"metrics": {"matched": 2}}), reply(7, 0.0, verdict={"metrics": {}})])
    assert found.agent_metrics["mean/matched"] == 2.0
    assert "mean/_ng_task_index" not in found.agent_metrics


def test_a_reward_below_0_lowers_the_mean_and_is_no_pass() -> None:
    bent = {"verdict": {"metrics": {"tests_forged": 1.0}}}
    found = aggregate([reply(0, 1.0, verdict={"metrics": {"tests_forged": 0.0}}), reply(0, -1.0, **bent)])
    assert (found.agent_metrics["mean/reward"], found.agent_metrics["mean/tests_forged"]) == (0.0, 0.5)
    assert (found.agent_metrics["pass@1/accuracy"], found.agent_metrics["pass@2/accuracy"]) == (0.5, 1.0)


def test_where_steps_are_rewarded_a_reply_passes_by_its_outcome() -> None:
    replies = [
        reply(0, 0.7, verdict={"metrics": {"outcome_reward": 1.0}}),
        reply(0, 1.2, verdict={"metrics": {"outcome_reward": 0.0}}),
    ]
    found = aggregate(replies)
    assert (found.agent_metrics["pass@1/accuracy"], found.agent_metrics["mean/reward"]) == (0.5, 0.95)


@given(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=8),
    st.lists(st.sampled_from(["no reward", "judge"]), max_size=8),
)
def test_failures_never_enter_a_mean(rewards: list[float], failures: list[str]) -> None:
    good = [reply(index, reward) for index, reward in enumerate(rewards)]
    bad: list[dict[str, Any]] = [
        {"_ng_task_index": 0} if kind == "no reward" else reply(0, 0.0, _ng_failure_class="judge_failed")
        for kind in failures
    ]
    with_failures = aggregate(good + bad).agent_metrics
    assert with_failures == {**aggregate(good).agent_metrics, "failures": float(len(bad))}


@given(st.integers(1, 7), st.data())
def test_pass_at_k_is_the_share_of_draws_with_a_pass(samples: int, data: st.DataObject) -> None:
    passed = data.draw(st.integers(0, samples))
    k = data.draw(st.integers(1, samples))
    draws = list(combinations([True] * passed + [False] * (samples - passed), k))
    assert pass_at_k(samples, passed, k) == pytest.approx(sum(any(draw) for draw in draws) / len(draws))


def test_pass_at_more_than_there_is_is_refused() -> None:
    with pytest.raises(ValueError, match="pass@3 of 2"):
        pass_at_k(2, 1, 3)


def test_nothing_to_aggregate_is_no_error() -> None:
    assert aggregate([]).agent_metrics == {"failures": 0.0}
