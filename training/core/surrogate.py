"""The loss of each token before weights: the clipped ratio times the advantage, or a variant of it.

Formula `max(-A r, -A clip(r, 1 - ratio_clip_min, 1 + ratio_clip_max))`, r = exp(log-prob now - before the step):
        PPO (arXiv 1707.06347), GRPO (arXiv 2402.03300), the two bounds apart as in DAPO (arXiv 2503.14476).
        Dual clip (arXiv 1912.09729): for A < 0 at most `-A c`. GSPO (arXiv 2507.18071): r of a row is exp of the mean
        over its tokens. `force_on_policy_ratio`: r is 1 in value and has the log-prob's gradient.
        REINFORCE (`disable_ppo_ratio`; arXiv 2402.14740): `-A log-prob`.
Source  NeMo-RL, `ClippedPGLossFn`.
"""

from typing import Generic, NamedTuple

from paddock.training.core.arrays import A, Arrays
from paddock.training.core.loss_inputs import TrainedTokens, row_means
from paddock.training.core.loss_settings import LossSettings


class Ratios(NamedTuple, Generic[A]):
    """The ratio of each token, `[tokens]`, as it is and clipped."""

    raw: A
    clipped: A


def ratios(tokens: TrainedTokens[A], old_log_probs: A, settings: LossSettings, arrays: Arrays[A]) -> Ratios[A]:
    """Ratios of the current log-probs to `old_log_probs` `[tokens]`; for REINFORCE the log-probs themselves."""
    now = tokens.log_probs
    if settings.force_on_policy_ratio:
        ratio = arrays.exp(now - arrays.detach(now))
        return Ratios(ratio, ratio)
    if settings.disable_ppo_ratio:
        return Ratios(now, now)
    difference = now - old_log_probs
    if settings.sequence_level_importance_ratios:
        difference = arrays.of_rows(row_means(difference, tokens, arrays), tokens.rows)
    ratio = arrays.exp(difference)
    return Ratios(ratio, arrays.clamp(ratio, 1 - settings.ratio_clip_min, 1 + settings.ratio_clip_max))


def surrogate(ratio: Ratios[A], advantages: A, settings: LossSettings, arrays: Arrays[A]) -> A:
    """The loss of each token, `[tokens]`, before it is weighed and averaged."""
    loss = arrays.maximum(-advantages * ratio.raw, -advantages * ratio.clipped)
    if settings.ratio_clip_c is None:
        return loss
    bounded = arrays.minimum(loss, -advantages * settings.ratio_clip_c)
    return arrays.where(arrays.within(advantages, 0.0, None), loss, bounded)
