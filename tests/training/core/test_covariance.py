"""Claims about the tokens that Clip-Cov and KL-Cov choose, and what is left of their loss."""

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from tests.training.core.test_loss import PLAIN, RATIOS, SURROGATE, TOKENS, loss, metrics

from paddock.training.core.covariance import StepTokens, chosen_tokens
from paddock.training.core.loss_settings import LossSettings
from paddock.training.core.plain_arrays import Vector

CHOSEN = TOKENS._replace(chosen=Vector([0.0, 1.0, 0.0, 1.0]))
ADVANTAGES = np.array([2.0, -2.0, 1.0, -1.0])
NOW = np.array([-1.0, -4.0, -2.0, -1.0])
"""Covariances are 2, 4, 0 and -1."""
CLIP: dict[str, Any] = {"clip_cov_lb": -3.0, "clip_cov_ub": 9.0, "clip_cov_ratio": 1.0}


def chosen(now: Any = NOW, old: Any = NOW, seed: int = 0, **keys: Any) -> list[int]:
    given = StepTokens(np.asarray(now), np.asarray(old), ADVANTAGES)
    return np.flatnonzero(chosen_tokens(given, LossSettings(**keys), [seed])).tolist()


@pytest.mark.parametrize(("share", "expected"), [(2e-4, [1]), (0.5, [0, 1]), (0.75, [0, 1, 2])])
def test_kl_cov_chooses_the_largest_and_at_least_one(share: float, expected: list[int]) -> None:
    assert chosen(kl_cov={"kl_cov_ratio": share}) == expected


def test_clip_cov_chooses_between_its_bounds_and_not_what_the_clip_holds() -> None:
    assert chosen(clip_cov=CLIP) == [0, 1, 2, 3]
    assert chosen(clip_cov={**CLIP, "clip_cov_lb": 0.5, "clip_cov_ub": 3.0}) == [0]
    assert chosen(old=[-2.0, -4.0, -2.0, -1.0], clip_cov=CLIP) == [1, 2, 3], "its ratio is above the clip"
    assert chosen(clip_cov={**CLIP, "clip_cov_lb": 5.0}) == []


def test_clip_cov_chooses_its_share_by_the_seed_alone() -> None:
    half = {**CLIP, "clip_cov_ratio": 0.5}
    by_seed = [tuple(chosen(seed=seed, clip_cov=half)) for seed in range(40)]
    assert {len(found) for found in by_seed} == {2}
    assert {nth for found in by_seed for nth in found} == {0, 1, 2, 3}
    assert by_seed == [tuple(chosen(seed=seed, clip_cov=half)) for seed in range(40)]
    assert len(chosen(clip_cov={**CLIP, "clip_cov_ratio": 1e-4})) == 1


def test_no_token_is_chosen_of_none() -> None:
    none = np.empty(0)
    assert not len(chosen_tokens(StepTokens(none, none, none), LossSettings(clip_cov={}), [0]))
    with pytest.raises(ValueError, match="neither"):
        chosen_tokens(StepTokens(NOW, NOW, NOW), LossSettings(), [0])


def test_what_clip_cov_chose_has_no_loss_and_counts_in_the_divisor() -> None:
    assert loss(CHOSEN, clip_cov={}, **PLAIN) == pytest.approx((SURROGATE[0] + SURROGATE[2]) / 4)


def test_what_kl_cov_chose_pays_for_its_distance_and_nothing_is_clipped() -> None:
    unclipped = [-RATIOS[0], -RATIOS[1], 2.0, RATIOS[3]]
    distances = [abs(math.log(RATIOS[nth])) for nth in (1, 3)]
    keys: dict[str, Any] = {"kl_cov": {"ppo_kl_coef": 0.5}, **PLAIN}
    assert loss(CHOSEN, **keys) == pytest.approx((sum(unclipped) + 0.5 * sum(distances)) / 4)
    assert "train/covariance_chosen_ratio" not in metrics()


def test_a_choice_that_is_missing_is_asked_for() -> None:
    for name in ("clip_cov", "kl_cov"):
        keys: dict[str, Any] = {name: {}}
        with pytest.raises(ValueError, match="the choice of tokens is needed"):
            loss(**keys)
        assert LossSettings(**keys).needs_every_row


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"clip_cov": {}, "kl_cov": {}}, "choose one"),
        ({"clip_cov": {}, "use_cispo": True}, "choose one"),
        ({"kl_cov": {}, "ratio_clip_c": 3.0}, "no second clip"),
        ({"kl_cov": {}, "disable_ppo_ratio": True}, "leave no ratio"),
        ({"clip_cov": {}, "ratio_against": "generation"}, "set ratio_against"),
        ({"clip_cov": {"clip_cov_lb": 5.0}}, "has to be below"),
    ],
)
def test_what_makes_no_sense_together_is_refused(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        LossSettings(**keys)
