"""Claims about advantages: those computed by hand, NeMo-RL's formula, and nothing of a member without a reward."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.errors import ConfigError
from paddock.training.core.advantages import advantages, batch_deviation, group_advantages
from paddock.training.core.settings import GrpoSettings
from paddock.training.core.token_advantages import reinforce_plus_plus

THEIRS = GrpoSettings()
REWARDS = st.floats(-10, 10).map(lambda value: round(value, 3))


def approx(values: Sequence[float | None]) -> list[Any]:
    return [None if value is None else pytest.approx(value, abs=1e-12) for value in values]


def test_one_gold_and_three_failing() -> None:
    """The gold's others are all alike: its difference of 1 stays. The others' others are 1, 0, 0: mean 1/3, variance
    ((2/3)^2 + 2 (1/3)^2) / 2 = 1/3."""
    other = -(1 / 3) / (math.sqrt(1 / 3) + 1e-6)
    assert advantages([1.0, 0.0, 0.0, 0.0], THEIRS) == approx([1.0, other, other, other])
    assert other == pytest.approx(-0.57735, abs=1e-5)


def test_without_normalisation_it_is_the_difference() -> None:
    settings = GrpoSettings(normalize_rewards=False)
    assert advantages([1.0, 0.0, 0.5], settings) == approx([0.75, -0.75, 0.0])


def test_the_mean_of_all_as_baseline() -> None:
    """1, 0, 0, 0: mean 1/4, variance (9/16 + 3/16) / 3 = 1/4."""
    settings = GrpoSettings(use_leave_one_out_baseline=False)
    unit = 0.5 + 1e-6
    assert advantages([1.0, 0.0, 0.0, 0.0], settings) == approx([0.75 / unit, *[-0.25 / unit] * 3])


def test_one_below_the_failing_is_taught_to_be_worse_than_they_are() -> None:
    """0, 0, -1: the failing ones' others have the mean -1/2, the other's are alike: its difference of -1 stays."""
    settings = GrpoSettings(normalize_rewards=False)
    assert advantages([0.0, 0.0, -1.0], settings) == approx([0.5, 0.5, -1.0])
    failing, _, forging = advantages([0.0, 0.0, -1.0], THEIRS)
    assert failing is not None
    assert forging is not None
    assert forging < 0 < failing


def test_rewards_all_alike_teach_nothing() -> None:
    for own in (True, False):
        settings = GrpoSettings(use_leave_one_out_baseline=own)
        assert advantages([0.1] * 7, settings) == [0.0] * 7


def test_of_two_each_has_the_other_as_baseline_and_no_deviation() -> None:
    assert advantages([1.0, 0.25], THEIRS) == approx([0.75, -0.75])


def test_one_alone_has_nothing_to_be_compared_with() -> None:
    assert advantages([None, 1.0, None], THEIRS) == [None, 0.0, None]
    assert advantages([None, None], THEIRS) == [None, None]
    assert advantages([], THEIRS) == []


def test_clipped_after_normalisation() -> None:
    settings = GrpoSettings(advantage_clip_low=-0.5, advantage_clip_high=0.9)
    assert advantages([1.0, 0.0, 0.0, 0.0], settings) == approx([0.9, -0.5, -0.5, -0.5])


@given(st.lists(REWARDS, min_size=2, max_size=9), st.booleans(), st.booleans())
def test_as_nemo_rl(rewards: list[float], own: bool, normalised: bool) -> None:
    """Its baseline and deviation, written down from its matrices: sums over all but the member's own."""
    settings = GrpoSettings(use_leave_one_out_baseline=own, normalize_rewards=normalised)
    for nth, found in enumerate(advantages(rewards, settings)):
        n = len(rewards) - own
        sums = [math.fsum(value**power for at, value in enumerate(rewards) if at != nth or not own) for power in (1, 2)]
        baseline, square = sums[0] / n, sums[1] / n
        variance = (square - baseline**2) * (n / (n - 1)) if n > 1 else 0.0
        std = math.sqrt(variance) if variance > 1e-12 else 0.0
        expected = rewards[nth] - baseline
        if normalised and std > 0:
            expected /= std + 1e-6
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-9)


@given(st.lists(REWARDS, max_size=8), st.data())
def test_who_has_no_reward_changes_nobodys_advantage(rewards: list[float], data: st.DataObject) -> None:
    alone = advantages(rewards, THEIRS)
    mixed: list[float | None] = list(rewards)
    for _ in range(data.draw(st.integers(0, 4))):
        mixed.insert(data.draw(st.integers(0, len(mixed))), None)
    found = advantages(mixed, THEIRS)
    assert [one for one in found if one is not None] == alone
    assert [one is None for one in found] == [one is None for one in mixed]


@given(st.lists(REWARDS, min_size=2, max_size=8))
def test_unnormalised_they_sum_to_nothing(rewards: list[float]) -> None:
    found = advantages(rewards, GrpoSettings(normalize_rewards=False))
    assert math.fsum(one for one in found if one is not None) == pytest.approx(0, abs=1e-9)


def estimator(name: str, **keys: Any) -> GrpoSettings:
    own = {key: keys.pop(key) for key in ("minus_baseline", "normalize_over") if key in keys}
    return GrpoSettings.model_validate({"adv_estimator": {"name": name, **own}, **keys})


def test_maxrl_is_the_difference_in_shares_of_the_mean() -> None:
    assert advantages([1.0, 0.0, 0.0, 0.0], estimator("maxrl")) == approx(
        [3 * 0.25 / (0.25 + 1e-6), *[-0.25 / (0.25 + 1e-6)] * 3]
    )
    assert advantages([0.0, 0.0], estimator("maxrl")) == [0.0, 0.0]
    assert advantages([-1.0, 0.0, None], estimator("maxrl")) == [0.0, 0.0, None]


def test_pass_at_k_rewards_the_best_alone_by_how_far_it_is_ahead() -> None:
    plain = estimator("grpo_passk", normalize_rewards=False)
    assert advantages([0.2, None, 1.0, 0.5], plain) == approx([0.0, None, 0.5, 0.0])
    assert advantages([1.0, 1.0, 0.0], plain) == [0.0, 0.0, 0.0]
    assert advantages([1.0, 0.0], estimator("grpo_passk")) == approx([1 / (math.sqrt(0.5) + 1e-6), 0.0])


def test_the_deviation_may_be_that_of_the_batch() -> None:
    settings = estimator("grpo", normalize_over="batch", use_leave_one_out_baseline=False)
    std = batch_deviation([1.0, 0.0, None, 5.0, 5.0])
    assert std == pytest.approx(np.std([1.0, 0.0, 5.0, 5.0], ddof=1))
    assert advantages([1.0, 0.0], settings, batch_std=std) == approx([0.5 / (std + 1e-6), -0.5 / (std + 1e-6)])
    with pytest.raises(ValueError, match="all groups"):
        advantages([1.0, 0.0], settings)


def test_reinforce_plus_plus_is_normalised_over_the_tokens_of_the_batch() -> None:
    assert advantages([1.0, 0.0, None], estimator("reinforce_plus_plus")) == approx([0.5, -0.5, None])
    raw = estimator("reinforce_plus_plus", minus_baseline=False, use_leave_one_out_baseline=False)
    assert advantages([1.0], raw) == [1.0]
    rows = reinforce_plus_plus([np.array([1.0, 1.0, 1.0]), np.array([0.0])], None, raw)
    assert rows[0] == pytest.approx([0.25 / math.sqrt(3 / 16)] * 3)
    assert rows[1] == pytest.approx([-0.75 / math.sqrt(3 / 16)])
    bounded = estimator("reinforce_plus_plus", advantage_clip_low=-1.0, advantage_clip_high=0.5)
    assert [row.tolist() for row in reinforce_plus_plus([np.array([1.0, 0.0])], None, bounded)] == [[0.5, -1.0]]
    assert reinforce_plus_plus([], None, raw) == []


@pytest.mark.parametrize(("credit", "off"), [("token", [0.0, 0.0, 0.5]), ("reward_to_go", [0.5, 0.5, 0.5])])
def test_the_kl_of_a_token_or_of_all_behind_it_is_taken_off_its_reward(credit: str, off: list[float]) -> None:
    settings = GrpoSettings.model_validate({"adv_estimator": {"name": "reinforce_plus_plus", "kl_credit": credit}})
    rewards, penalties = [np.ones(3), np.zeros(2)], [np.array([0.0, 0.0, 0.5]), np.zeros(2)]
    plain = reinforce_plus_plus([np.ones(3) - off, np.zeros(2)], None, settings)
    found = reinforce_plus_plus(rewards, penalties, settings)
    assert [row.tolist() for row in found] == [row.tolist() for row in plain]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"adv_estimator": {"name": "maxrl", "normalize_over": "batch"}}, "for the estimator `grpo`"),
        ({"adv_estimator": {"name": "reinforce_plus_plus"}, "invalid_tool_call_advantage": -1.0}, "mask"),
    ],
)
def test_estimators_that_cannot_be_what_is_asked_for(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        GrpoSettings.model_validate(keys)


@pytest.mark.parametrize("estimator", [{"name": "reinforce_plus_plus"}, {"normalize_over": "batch"}])
def test_what_needs_all_groups_is_refused_where_one_is_given_at_a_time(estimator: dict[str, str]) -> None:
    rewards = [1.0, 0.0, None]
    assert group_advantages(rewards, THEIRS) == advantages(rewards, THEIRS)
    with pytest.raises(ConfigError, match="all groups of a step"):
        group_advantages(rewards, GrpoSettings.model_validate({"adv_estimator": estimator}))
