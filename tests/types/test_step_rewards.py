"""Claims about how scores of steps come together with an outcome."""

import math

from hypothesis import given
from hypothesis import strategies as st

from paddock.http import rollout_from_wire
from paddock.types import Rollout, Row, Verdict
from paddock.types.step_rewards import JudgedStep, OutcomeValues, StepRewards, combine_as_stored, combine_rewards

SWE_RL = OutcomeValues(failed=-1.0, passed=1.0)


def steps(*scores: float | None, coefficient: float = 1.0, values: OutcomeValues = SWE_RL) -> StepRewards:
    judged = [
        JudgedStep(step_id=f"step_{n}", turn=n, score=score, missing="late" if score is None else None)
        for n, score in enumerate(scores, 1)
    ]
    return StepRewards(coefficient=coefficient, outcome_values=values, scores=judged)


def verdict(reward: float = 1.0) -> Verdict:
    return Verdict(reward=reward, reason="resolved", metrics={"close": 0.5}, extras={"told": 1})


def test_the_reward_is_the_outcome_and_the_mean_of_what_came() -> None:
    found = combine_rewards(verdict(0.0), steps(1.0, None, -1 / 3, 1 / 3, coefficient=0.5))
    assert found.reward_components == {"outcome": -1.0, "steps": 0.5 * (1 / 3)}
    assert abs(found.reward - (-1 + 0.5 / 3)) < 1e-12
    known = {"close": 0.5, "outcome_reward": 0.0, "steps_scored": 3, "steps_missing": 1}
    assert found.metrics == {**known, "mean_step_score": (1.0 - 1 / 3 + 1 / 3) / 3}
    assert (found.reason, found.extras["told"]) == ("resolved", 1)


def test_without_a_score_the_outcome_is_alone() -> None:
    found = combine_rewards(verdict(), steps(None, None))
    assert (found.reward, found.reward_components) == (1.0, {"outcome": 1.0})
    assert found.metrics["steps_missing"] == 2
    assert "mean_step_score" not in found.metrics
    skipped = [JudgedStep(step_id="step_1", turn=1, score=None, missing="skipped")]
    assert combine_rewards(verdict(), StepRewards(scores=skipped)).metrics["steps_missing"] == 0


def test_an_environments_share_of_a_pass_lies_between_the_values() -> None:
    assert combine_rewards(verdict(0.25), steps()).reward == -0.5
    assert combine_rewards(verdict(0.25), steps(values=OutcomeValues())).reward == 0.25


FINITE = st.floats(-100, 100)


@given(FINITE, st.lists(st.none() | st.floats(-1, 1), max_size=30), FINITE, FINITE, FINITE)
def test_a_stored_rollout_has_all_that_its_reward_is_made_of(
    reward: float, scores: list[float | None], coefficient: float, failed: float, passed: float
) -> None:
    values = OutcomeValues(failed=failed, passed=passed)
    found = combine_rewards(verdict(reward), steps(*scores, coefficient=coefficient, values=values))
    row = Row(responses_create_params={"input": "a"}, task={"answer": "b"})
    rollout = Rollout(row=row, outcome="completed", verdict=found)
    stored = rollout_from_wire(rollout.to_wire())
    assert stored == rollout
    assert combine_as_stored(verdict(reward), stored.verdict) == found
    again = combine_as_stored(verdict(reward + 1), stored.verdict)
    assert math.isclose(again.reward - found.reward, passed - failed, rel_tol=1e-9, abs_tol=1e-9)


def test_a_verdict_that_was_combined_with_nothing_stays_what_it_is() -> None:
    assert combine_as_stored(verdict(), verdict(0.0)) == verdict()
    assert combine_as_stored(verdict(), None) == verdict()
