"""Tokens chosen by their covariance, which lower a policy's entropy most: `chosen_tokens`.

Formula c = (A - mean of A) (log-prob now - mean of log-probs now), means over the trained tokens of an optimiser step.
        Clip-Cov: of the tokens with c between its bounds that the clip does not hold, a share of all tokens at random,
        at least one. KL-Cov: the share of all tokens with the largest c, at least one.
Source  The Entropy Mechanism of Reinforcement Learning (arXiv 2505.22617); verl's `clip_cov` and `kl_cov`, which choose
        in each micro-batch of each process, by that process's random numbers.
Law     the choice is of the whole optimiser step, by a seed that is the same on every process: it depends neither on
        their number nor on micro-batches.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from paddock.training.core.loss_settings import ClipCovSettings, KlCovSettings, LossSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray


class StepTokens(NamedTuple):
    """The trained tokens of an optimiser step, `[tokens]`; log-probs are in nats."""

    log_probs: "NDArray[np.floating]"
    """Under the weights of that optimiser step."""
    old_log_probs: "NDArray[np.floating]"
    """Under the weights that the step of training began with."""
    advantages: "NDArray[np.floating]"


def chosen_tokens(tokens: StepTokens, settings: LossSettings, seed: Sequence[int]) -> "NDArray[np.bool_]":
    """`[tokens]`: which are chosen. ValueError where the settings choose none."""
    chosen = np.zeros(len(tokens.log_probs), np.bool_)
    if not len(chosen):
        return chosen
    now, advantages = tokens.log_probs.astype(np.float64), tokens.advantages.astype(np.float64)
    covariance = (advantages - advantages.mean()) * (now - now.mean())
    if settings.clip_cov is not None:
        clipped = _clipped(np.exp(now - tokens.old_log_probs), advantages, settings)
        chosen[_at_random(covariance, clipped, settings.clip_cov, seed)] = True
    elif settings.kl_cov is not None:
        chosen[_largest(covariance, settings.kl_cov)] = True
    else:
        raise ValueError("neither clip_cov nor kl_cov is set: no token is chosen")
    return chosen


def _clipped(
    ratio: "NDArray[np.float64]", advantages: "NDArray[np.float64]", settings: LossSettings
) -> "NDArray[np.bool_]":
    bounded = np.clip(ratio, 1 - settings.ratio_clip_min, 1 + settings.ratio_clip_max)
    held: NDArray[np.bool_] = -advantages * bounded > -advantages * ratio
    return held


def _at_random(
    covariance: "NDArray[np.float64]", clipped: "NDArray[np.bool_]", settings: ClipCovSettings, seed: Sequence[int]
) -> "NDArray[np.intp]":
    inside = (covariance > settings.clip_cov_lb) & (covariance < settings.clip_cov_ub) & ~clipped
    candidates = np.flatnonzero(inside)
    n = min(max(int(settings.clip_cov_ratio * len(covariance)), 1), len(candidates))
    return np.random.default_rng(seed).permutation(candidates)[:n]


def _largest(covariance: "NDArray[np.float64]", settings: KlCovSettings) -> "NDArray[np.intp]":
    n = max(int(settings.kl_cov_ratio * len(covariance)), 1)
    return np.argsort(-covariance, kind="stable")[:n]
