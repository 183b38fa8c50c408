"""Claims about the records that cross a process."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.types import OUTCOMES, REWARDED, Failure, Outcome, Rollout, Row, Stamp, Turn, Verdict, WeightSpan

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
    assert OUTCOMES == ("completed", "truncated", "infra", "verifier", "row", "leak", "cancelled")
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


def sampled_by(version: str | None, *spans: tuple[str | None, int, int], sampled: int | None = 3) -> Turn:
    return Turn(
        id="t",
        parent=None,
        prompt_ids=[1],
        sampled_ids=None if sampled is None else list(range(sampled)),
        log_probs=None,
        weight_version=version,
        finish_reason="stop",
        request_hash="0",
        output=[],
        weight_spans=[WeightSpan(version=name, start=start, end=end) for name, start, end in spans],
    )


def test_weight_spans_cover_all_sampled_ids_in_order_and_the_last_is_the_turns_version() -> None:
    assert len(sampled_by("w2", ("w1", 0, 1), ("w2", 1, 3)).weight_spans) == 2
    assert sampled_by("w2", (None, 0, 1), ("w2", 1, 3)).weight_spans[0].version is None
    assert sampled_by("w1").weight_spans == []


@pytest.mark.parametrize(
    ("turn", "why"),
    [
        ({"version": "w2", "spans": [("w1", 0, 1), ("w2", 2, 3)]}, "2:3 after the first 1 ids"),
        ({"version": "w2", "spans": [("w1", 0, 2), ("w2", 1, 3)]}, "1:3 after the first 2 ids"),
        ({"version": "w2", "spans": [("w1", 1, 2), ("w2", 2, 3)]}, "1:2 after the first 0 ids"),
        ({"version": "w2", "spans": [("w1", 0, 0), ("w2", 0, 3)]}, "0:0 after the first 0 ids"),
        ({"version": "w2", "spans": [("w1", 0, 1), ("w2", 1, 2)]}, "2 ids for 3 sampled ids"),
        ({"version": "w2", "spans": [("w1", 0, 1), ("w2", 1, 4)]}, "4 ids for 3 sampled ids"),
        ({"version": "w2", "spans": [("w2", 0, 1)], "sampled": None}, "1 ids for 0 sampled ids"),
        ({"version": "w1", "spans": [("w1", 0, 1), ("w2", 1, 3)]}, "its last span's is 'w2'"),
    ],
)
def test_weight_spans_that_leave_an_id_open_or_to_two_versions_are_none(turn: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        sampled_by(turn["version"], *turn["spans"], sampled=turn.get("sampled", 3))


def test_a_turn_that_says_nothing_of_spans_and_sampling_is_read() -> None:
    said = sampled_by("w1").model_dump()
    for name in ("weight_spans", "sampling", "overridden"):
        del said[name]
    assert Turn.model_validate(said) == sampled_by("w1")
