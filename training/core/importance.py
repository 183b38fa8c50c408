"""Sampling weights: what the engine sampled, corrected to what the trainer would have.

Formula w = exp(trainer's log-prob before the step - engine's log-prob), per token, or, for a row
        (`importance_sampling_level`), exp of the sum over it. What is no number weighs 0.
Bounds  `tis`: w within [min or 0, max]. `icepop`: tokens with w outside [min, max] weigh 0. `seq-mask-tis`: rows whose
        geometric mean of w is outside [min, max] weigh 0, others keep their tokens' w.
Source  NeMo-RL, `ClippedPGLossFn` and `docs/guides/grpo.md`; a weight that overflows is bounded as any other, where
        theirs is 0.
Law     weights have no gradient.
"""

import math
from typing import Generic, NamedTuple

from paddock.training.core.arrays import A, Arrays
from paddock.training.core.loss_inputs import TrainedTokens, row_means
from paddock.training.core.loss_settings import LossSettings


class SamplingWeights(NamedTuple, Generic[A]):
    """Weights `[tokens]`; those of rows are the same for all tokens of a row."""

    values: A
    """The bounded weights; computed also where the loss does not use them."""
    outside: A
    """1 where a bound took effect."""


def sampling_weights(
    tokens: TrainedTokens[A], old_log_probs: A, settings: LossSettings, arrays: Arrays[A]
) -> SamplingWeights[A]:
    """The weight of each token. `old_log_probs` `[tokens]`: the trainer's before the step."""
    difference = arrays.detach(old_log_probs - tokens.engine_log_probs)
    if settings.truncated_importance_sampling_type == "seq-mask-tis":
        return _masked_rows(tokens, difference, settings, arrays)
    if settings.weighs_rows:
        sums = arrays.row_totals(difference, tokens.rows, tokens.n_rows)
        difference = arrays.of_rows(sums, tokens.rows)
    return _bounded(difference, settings, arrays)


def _bounded(difference: A, settings: LossSettings, arrays: Arrays[A]) -> SamplingWeights[A]:
    """Weights of which `difference` is the logarithm."""
    kind, high = settings.truncated_importance_sampling_type, settings.truncated_importance_sampling_ratio
    none = arrays.full(difference, 0.0)
    if kind is None or high is None:
        return SamplingWeights(arrays.finite(arrays.exp(difference)), none)
    low, log_high = settings.truncated_importance_sampling_ratio_min, math.log(high)
    log_low = math.log(low) if low else None
    inside = arrays.within(difference, log_low, log_high)
    bounded = arrays.finite(arrays.exp(arrays.clamp(difference, log_low, log_high)))
    values = bounded if kind == "tis" else arrays.where(inside, bounded, none)
    return SamplingWeights(values, -inside + 1.0)


def _masked_rows(
    tokens: TrainedTokens[A], difference: A, settings: LossSettings, arrays: Arrays[A]
) -> SamplingWeights[A]:
    mean = arrays.exp(row_means(arrays.finite(difference), tokens, arrays))
    low, high = settings.truncated_importance_sampling_ratio_min, settings.truncated_importance_sampling_ratio
    inside = arrays.of_rows(arrays.within(mean, low, high), tokens.rows)
    return SamplingWeights(arrays.finite(arrays.exp(difference)) * inside, -inside + 1.0)
