"""Claims about the records that cross a process."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.types import OUTCOMES, REWARDED, Failure, Outcome, Rollout, Row, Stamp, Turn, Verdict

ROW = Row(responses_create_params={"input": "hi"})
VERDICT = Verdict(reward=1.0, reason="match")
FAILURE = Failure(owner="infra", kind="timeout", message="no answer")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_only_rewarded_outcomes_take_a_verdict_and_only_the_others_a_failure(outcome: Outcome) -> None:
    rewarded = outcome in REWARDED
    accepted = {
        (verdict, failure): _accepts(
            row=ROW, outcome=outcome, verdict=VERDICT if verdict else None, failure=FAILURE if failure else None
        )
        for verdict in (True, False)
        for failure in (True, False)
    }
    assert accepted == {
        (True, True): False,
        (False, False): False,
        (True, False): rewarded,
        (False, True): not rewarded,
    }


def test_the_outcomes_are_the_seven_of_the_law() -> None:
    assert get_args(Outcome) == OUTCOMES
    assert {"completed", "truncated"} == REWARDED


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_a_reward_is_a_number_that_can_be_averaged(reward: float) -> None:
    assert not _accepts_verdict(reward)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_metrics_and_log_probs_are_numbers_that_a_line_can_hold(number: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        Verdict(reward=0.0, reason="x", metrics={"m": number})
    with pytest.raises(ValidationError, match="finite"):
        Turn(
            id="t",
            parent=None,
            prompt_ids=None,
            sampled_ids=[1],
            log_probs=[number],
            weight_version=None,
            finish_reason=None,
            request_hash="0",
            output=[],
        )


def _accepts(**fields: Any) -> bool:
    try:
        Rollout(**fields)
    except ValidationError:
        return False
    return True


def _accepts_verdict(reward: float) -> bool:
    try:
        Verdict(reward=reward, reason="x")
    except ValidationError:
        return False
    return True


@given(st.dictionaries(st.text().filter(lambda key: not key.startswith("_")), json_values, max_size=5))
def test_a_row_keeps_every_key_that_the_framework_does_not_own(task: dict[str, Any]) -> None:
    task = {key: value for key, value in task.items() if key not in ("responses_create_params", "agent_ref")}
    wire = {
        "responses_create_params": {"input": "hi", "tools": None},
        "agent_ref": {"type": "agents", "name": "a"},
        "_ng_task_index": 3,
        "_paddock_run_id": "r",
        "_paddock_epoch": 2,
        **task,
    }
    row = Row.from_wire(wire)
    assert row.task == task
    assert row.stamp == Stamp(group_id=3, run_id="r", epoch=2)
    assert row.to_wire() == wire


def test_a_turn_has_one_log_prob_per_sampled_id() -> None:
    fields: dict[str, Any] = {
        "id": "t",
        "parent": None,
        "prompt_ids": [1],
        "sampled_ids": [2, 3],
        "weight_version": None,
        "finish_reason": "stop",
        "request_hash": "0",
        "output": [],
    }
    assert Turn(**fields, log_probs=[-0.1, -0.2]).log_probs == [-0.1, -0.2]
    assert Turn(**fields, log_probs=None).log_probs is None
    with pytest.raises(ValidationError, match="1 log-probs for 2 sampled ids"):
        Turn(**fields, log_probs=[-0.1])
    with pytest.raises(ValidationError, match="1 log-probs for 0 sampled ids"):
        Turn(**{**fields, "sampled_ids": None}, log_probs=[-0.1])


def test_records_are_frozen_and_refuse_unknown_keys() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        VERDICT.reward = 0.5  # type: ignore[misc]
    with pytest.raises(ValidationError, match="rewrad"):
        Verdict.model_validate({"reward": 1.0, "reason": "x", "rewrad": 1.0})
