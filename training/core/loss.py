"""The loss of a micro-batch: `policy_loss`.

Formula sum of `weight * surrogate` over its trained tokens, divided by the trained tokens of the whole batch
        (`token_level_loss`), or the sum over its rows of the mean over their tokens, divided by the rows of the whole
        batch; and `reference_policy_kl_penalty` times the KL, less `entropy_coef` times the entropy, likewise. With
        `constant_length_tokens` the sum over a row is divided by that (Dr. GRPO, arXiv 2503.20783). `mean_over`: so
        over rollouts or prompts in place of rows. Where the ratio is taken of the engine's log-probs (`ratio_against`),
        it is the correction, and there is no weight. And `positive_example_nll_weight` times the mean of minus the
        log-prob over the tokens of rows with a reward above 0 (VAPO, arXiv 2504.05118).
Law     the divisors are the whole batch's, however it is spread: the losses and gradients of micro-batches and of
        processes, added, are those of the batch in one piece, however it was split. An average over processes (as data
        parallelism makes) has to be multiplied by their number.
Source  NeMo-RL, `ClippedPGLossFn` with `global_valid_toks` and `global_valid_seqs`, whose likelihood term is divided by
        the tokens of its micro-batch; SkyRL's `prompt_mean`.
"""

from paddock.training.core import kl
from paddock.training.core.arrays import A, Arrays
from paddock.training.core.importance import sampling_weights
from paddock.training.core.loss_inputs import BatchTotals, TrainedTokens, old_log_probs_of, row_means
from paddock.training.core.loss_metrics import LossMetrics, LossParts, loss_metrics
from paddock.training.core.loss_settings import LossSettings
from paddock.training.core.rejection import kept
from paddock.training.core.surrogate import ratios, surrogate


def policy_loss(
    tokens: TrainedTokens[A], totals: BatchTotals, settings: LossSettings, arrays: Arrays[A]
) -> tuple[A, LossMetrics]:
    """The micro-batch's part of the loss, a scalar, and of the metrics; both are added to those of the others."""
    old_log_probs = old_log_probs_of(tokens, settings, arrays)
    against_engine = settings.ratio_against == "generation"
    ratio = ratios(tokens, tokens.engine_log_probs if against_engine else old_log_probs, settings, arrays)
    correction = sampling_weights(tokens, old_log_probs, settings, arrays)
    per_token = surrogate(ratio, tokens, old_log_probs, settings, arrays)
    if settings.use_importance_sampling_correction and not against_engine:
        per_token = correction.values * per_token
    keeping = None
    if settings.rejections:
        keeping = kept(tokens, old_log_probs, settings, arrays)
        per_token = arrays.where(keeping, per_token, arrays.full(per_token, 0.0))
    loss = _mean(per_token, tokens, totals, settings, arrays)
    divergence = None
    if settings.has_kl_term:
        divergence = _mean(kl.penalty(tokens, settings, arrays), tokens, totals, settings, arrays)
        loss = loss + divergence * settings.reference_policy_kl_penalty
    entropy = None
    if tokens.entropies is not None or settings.needs_entropies:
        counts = totals if settings.needs_entropies else totals.measured
        entropy = _mean(_entropies(tokens), tokens, counts, settings, arrays)
    if entropy is not None and settings.needs_entropies:
        loss = loss - entropy * settings.entropy_coef
    likelihood = None
    if settings.positive_example_nll_weight > 0:
        likelihood = arrays.total(-tokens.log_probs * _positive(tokens)) / max(totals.positive_tokens, 1)
        loss = loss + likelihood * settings.positive_example_nll_weight
    return loss, loss_metrics(
        LossParts(loss, divergence, entropy, likelihood, old_log_probs, ratio, correction, keeping),
        tokens,
        totals,
        settings,
        arrays,
    )


def _mean(x: A, tokens: TrainedTokens[A], totals: BatchTotals, settings: LossSettings, arrays: Arrays[A]) -> A:
    """The part of `x` `[tokens]` in the mean over the whole batch, a scalar."""
    if settings.token_level_loss:
        return arrays.total(x) / max(totals.tokens, 1)
    n_units = max(totals.rows if settings.mean_over == "rows" else totals.units, 1)
    if settings.constant_length_tokens is not None:
        return arrays.total(x) / (settings.constant_length_tokens * n_units)
    if settings.mean_over == "rows":
        return arrays.total(row_means(x, tokens, arrays)) / n_units
    if tokens.unit_tokens is None:
        raise ValueError(f"mean_over {settings.mean_over!r}: the tokens of each are needed")
    return arrays.total(x / arrays.of_rows(tokens.unit_tokens, tokens.rows)) / n_units


def _positive(tokens: TrainedTokens[A]) -> A:
    if tokens.positive is None:
        raise ValueError("positive_example_nll_weight is above 0: which rows have a reward above 0 is needed")
    return tokens.positive


def _entropies(tokens: TrainedTokens[A]) -> A:
    if tokens.entropies is None:
        raise ValueError("entropy_coef is above 0: the policy's entropies are needed")
    return tokens.entropies
