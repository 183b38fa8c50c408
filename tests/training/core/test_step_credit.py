"""Claims about steps that are rewarded for themselves, by numbers computed by hand: -1 and 1 as outcomes."""

from collections.abc import Sequence
from statistics import stdev

import pytest

from paddock.training.core.flaws import FlawRules
from paddock.training.core.members import member_of
from paddock.training.core.records import Member
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.core.step_credit import Credit, sample_credits
from paddock.training.core.testing import batch, group, rollout, turn
from paddock.types import Verdict
from paddock.types.step_rewards import JudgedStep, OutcomeValues, StepRewards, combine_rewards

STEPWISE = GroupSettings(step_credit=True, sample_mode="dynamic_history")
PLAIN = GrpoSettings(normalize_rewards=False, use_leave_one_out_baseline=False)
NORMALISED = GrpoSettings(use_leave_one_out_baseline=False)


def stepped(nth: int, reward: float, scores: Sequence[float | None], extra: Sequence[str] = ()) -> Member:
    """A rollout with a turn per step, and turns beside that are no steps."""
    judged = [
        JudgedStep(step_id=f"step_{n}", turn=n, turn_id=f"t{n}", score=score) for n, score in enumerate(scores, 1)
    ]
    steps = StepRewards(outcome_values=OutcomeValues(failed=-1.0, passed=1.0), scores=judged)
    verdict = combine_rewards(Verdict(reward=reward, reason="match"), steps)
    turns = [*(turn(name) for name in extra), *(turn(step.turn_id or "") for step in judged)]
    return member_of(rollout(nth=nth, turns=turns, verdict=verdict), STEPWISE, FlawRules())


def three() -> list[Member]:
    """Rewards 2, 0, 1 (missing: the mean, 0); -2/3, 0 (mean 2/3); -1, -1 (no score: the outcome)."""
    return [
        stepped(0, 1.0, [1.0, -1.0, None], extra=["title"]),
        stepped(1, 0.0, [1 / 3, 1.0]),
        stepped(2, 0.0, [None, None]),
    ]


def numbers(found: list[Credit] | None) -> list[float]:
    assert found is not None
    return [number for credit in found for number in credit]


def test_each_step_has_its_own_reward_and_is_compared_with_the_same_step_of_others() -> None:
    first, second, third = sample_credits(three(), PLAIN)
    # Rollouts: 1, -1/3, -1, mean -1/9. Step 1: 2, -2/3, -1, mean 1/9. Step 2: 0, 0, -1, mean -1/3. Step 3: alone.
    assert numbers(first) == pytest.approx([1, 10 / 9, 2, 17 / 9, 0, 1 / 3, 1, 0], abs=1e-12)
    assert numbers(second) == pytest.approx([-2 / 3, -7 / 9, 0, 1 / 3], abs=1e-12)
    assert numbers(third) == pytest.approx([-1, -10 / 9, -1, -2 / 3], abs=1e-12)


def test_a_steps_advantage_is_normalised_among_its_like() -> None:
    found = sample_credits(three(), NORMALISED)
    step_1, step_2 = stdev([2, -2 / 3, -1]) + 1e-6, stdev([0, 0, -1]) + 1e-6
    assert numbers(found[1]) == pytest.approx([-2 / 3, -7 / 9 / step_1, 0, 1 / 3 / step_2], abs=1e-12)


def test_steps_that_are_all_alike_teach_nothing() -> None:
    members = [stepped(nth, 1.0, [0.5, score]) for nth, score in enumerate((-1.0, 1.0, 1.0))]
    for grpo in (PLAIN, NORMALISED, GrpoSettings()):
        assert [numbers(found)[1] for found in sample_credits(members, grpo)] == [0.0, 0.0, 0.0]


def test_a_member_that_failed_changes_no_baseline_and_has_no_credit() -> None:
    failed = member_of(rollout("verifier", nth=3), STEPWISE, FlawRules())
    assert sample_credits([*three(), failed], PLAIN) == [*sample_credits(three(), PLAIN), None]


def test_a_step_without_a_trained_sample_stays_in_its_baseline() -> None:
    members = three()
    silent = members[0]._replace(samples=members[0].samples[:1])
    assert sample_credits([silent, *members[1:]], PLAIN)[1:] == sample_credits(members, PLAIN)[1:]


def test_a_batch_has_them_and_samples_share_where_no_step_is_rewarded() -> None:
    made = batch(group(*three()), grpo=PLAIN, settings=STEPWISE)
    assert [row.reward for row in made.rows] == pytest.approx([1, 2, 0, 1, -2 / 3, 0, -1, -1], abs=1e-12)
    assert [row.advantages[2] for row in made.rows[:4]] == pytest.approx([10 / 9, 17 / 9, 1 / 3, 0], abs=1e-12)
    shared = [member._replace(steps=()) for member in three()]
    found = sample_credits(shared, PLAIN)
    assert [len(set(credits or ())) for credits in found] == [1, 1, 1]
    assert found[0] is not None
    assert found[0][0].advantage == pytest.approx(10 / 9, abs=1e-12)


def test_it_is_off_and_needs_a_sample_per_step() -> None:
    ended = rollout(verdict=combine_rewards(Verdict(reward=1.0, reason="match"), StepRewards()))
    assert member_of(ended, GroupSettings(sample_mode="dynamic_history"), FlawRules()).steps == ()
    assert member_of(rollout(), STEPWISE, FlawRules()).steps == ()
    with pytest.raises(ValueError, match="dynamic_history"):
        GroupSettings(step_credit=True)
