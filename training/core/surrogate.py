"""The loss of each token before weights: the clipped ratio times the advantage, or a variant of it.

Formula `max(-A r, -A clip(r, 1 - ratio_clip_min, 1 + ratio_clip_max))`, r = exp(log-prob now - before the step):
        PPO (arXiv 1707.06347), GRPO (arXiv 2402.03300), the two bounds apart as in DAPO (arXiv 2503.14476).
        Dual clip (arXiv 1912.09729): for A < 0 at most `-A c`. GSPO (arXiv 2507.18071): r of a row is exp of the mean
        over its tokens. `force_on_policy_ratio`: r is 1 in value and has the log-prob's gradient.
        REINFORCE (`disable_ppo_ratio`; arXiv 2402.14740): `-A log-prob`. CISPO (`use_cispo`; arXiv 2506.13585): `-A c
        log-prob`, c the clipped r without gradient. SAPO (`sapo`; arXiv 2511.20347): `-A sigmoid(t (r - 1)) 4 / t`, t
        the temperature for the sign of A; log r is bounded at 20 both ways. Clip-Cov (`clip_cov`; arXiv 2505.22617):
        chosen tokens (`covariance.py`) have 0. KL-Cov (`kl_cov`; the same): `-A r`, without a clip, and for chosen
        tokens `ppo_kl_coef |log r|` more: 0 where r is 1, and so in the first optimiser step of a batch.
Source  NeMo-RL, `ClippedPGLossFn`; verl and TRL for SAPO; verl for Clip-Cov and KL-Cov.
"""

from typing import Generic, NamedTuple

from paddock.training.core.arrays import A, Arrays
from paddock.training.core.loss_inputs import TrainedTokens, row_means
from paddock.training.core.loss_settings import LossSettings, SapoSettings

LARGEST_LOG_RATIO = 20.0


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
    if settings.sapo is not None:
        ratio = arrays.exp(arrays.clamp(difference, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))
        return Ratios(ratio, ratio)
    ratio = arrays.exp(difference)
    if settings.kl_cov is not None:
        return Ratios(ratio, ratio)
    return Ratios(ratio, arrays.clamp(ratio, 1 - settings.ratio_clip_min, 1 + settings.ratio_clip_max))


def surrogate(
    ratio: Ratios[A], tokens: TrainedTokens[A], old_log_probs: A, settings: LossSettings, arrays: Arrays[A]
) -> A:
    """The loss of each token, `[tokens]`, before it is weighed and averaged."""
    advantages = tokens.advantages
    if settings.kl_cov is not None:
        distance = arrays.absolute(tokens.log_probs - old_log_probs)
        return -advantages * ratio.raw + distance * _chosen(tokens) * settings.kl_cov.ppo_kl_coef
    if settings.use_cispo:
        return -advantages * arrays.detach(ratio.clipped) * tokens.log_probs
    if settings.sapo is not None:
        return -advantages * _gate(ratio.raw, advantages, settings.sapo, arrays)
    loss = arrays.maximum(-advantages * ratio.raw, -advantages * ratio.clipped)
    if settings.clip_cov is not None:
        return arrays.where(_chosen(tokens), arrays.full(loss, 0.0), loss)
    if settings.ratio_clip_c is None:
        return loss
    bounded = arrays.minimum(loss, -advantages * settings.ratio_clip_c)
    return arrays.where(arrays.within(advantages, 0.0, None), loss, bounded)


def _gate(ratio: A, advantages: A, sapo: SapoSettings, arrays: Arrays[A]) -> A:
    negative = arrays.within(advantages, None, 0.0)
    temperature = negative * (sapo.temperature_negative - sapo.temperature_positive) + sapo.temperature_positive
    sigmoid = arrays.full(ratio, 1.0) / (arrays.exp(-(temperature * (ratio - 1.0))) + 1.0)
    return sigmoid * 4.0 / temperature


def _chosen(tokens: TrainedTokens[A]) -> A:
    if tokens.chosen is None:
        raise ValueError("clip_cov and kl_cov: the choice of tokens is needed")
    return tokens.chosen
