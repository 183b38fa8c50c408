"""Metrics of the loss, which can be added over micro-batches and processes.

Names   NeMo-RL's (`ClippedPGLossFn`): `probs_ratio` and its extremes, `kl_penalty`, `token_mult_prob_error` (mean of
        exp |trainer - engine|), `gen_kl_error` and `policy_kl_error` (either way round), `sampling_importance_ratio`,
        `is_oob_ratio` (share of tokens that a bound of the sampling weights changed), `approx_entropy`; ours:
        `ratio_clipped` (share of tokens whose ratio is outside the clip), `rejected_ratio` (share of tokens that
        `rejections` leave out), `entropy`, `positive_nll` (VAPO's term),
        `covariance_chosen_ratio` (share of tokens that Clip-Cov or KL-Cov chose).
Law     means are over the whole batch's tokens: each part is divided by the total, so that the sum of the parts is the
        mean. Where rows without an advantage are not computed, they are means over the others. `loss`, `kl_penalty` and
        `entropy` are divided as the loss is; what a row has as a whole (its sampling weight, whether `seq-mask-tis`
        leaves it out) is a mean over rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple

from paddock.training.core.arrays import A, Arrays
from paddock.training.core.importance import SamplingWeights
from paddock.training.core.kl import estimate
from paddock.training.core.loss_inputs import BatchTotals, TrainedTokens, row_means
from paddock.training.core.loss_settings import LossSettings
from paddock.training.core.surrogate import Ratios


@dataclass(frozen=True)
class LossMetrics:
    """Sums and extremes by metric name; a name that no token has a value for is missing."""

    sums: Mapping[str, float] = field(default_factory=dict)
    smallest: Mapping[str, float] = field(default_factory=dict)
    largest: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: "LossMetrics") -> "LossMetrics":
        sums = {name: self.sums.get(name, 0.0) + other.sums.get(name, 0.0) for name in {**self.sums, **other.sums}}
        return LossMetrics(
            sums,
            {**self.smallest, **{n: min(v, self.smallest.get(n, v)) for n, v in other.smallest.items()}},
            {**self.largest, **{n: max(v, self.largest.get(n, v)) for n, v in other.largest.items()}},
        )

    def metrics(self) -> dict[str, float]:
        return {f"train/{name}": value for name, value in {**self.sums, **self.smallest, **self.largest}.items()}


class LossParts(NamedTuple, Generic[A]):
    """The loss of one micro-batch and what it was computed from. Scalars, and arrays `[tokens]`."""

    loss: A
    divergence: A | None
    entropy: A | None
    likelihood: A | None
    """The mean of minus the log-prob over rows with a reward above 0; None: there is no such term."""
    old_log_probs: A
    ratios: Ratios[A]
    weights: SamplingWeights[A]
    kept: A | None
    """1 where no rejection leaves a token out; None: there is none."""


def loss_metrics(
    parts: LossParts[A], tokens: TrainedTokens[A], totals: BatchTotals, settings: LossSettings, arrays: Arrays[A]
) -> LossMetrics:
    """The micro-batch's part of the metrics."""
    now, old_log_probs, engine = arrays.detach(tokens.log_probs), parts.old_log_probs, tokens.engine_log_probs
    raw, clipped = arrays.detach(parts.ratios.raw), arrays.detach(parts.ratios.clipped)
    kind, error = settings.reference_policy_kl_type, old_log_probs - engine
    means = {
        "probs_ratio": raw,
        "probs_ratio_clamped": clipped,
        "token_mult_prob_error": arrays.exp(arrays.absolute(error)),
        "gen_kl_error": estimate(error, kind, arrays),
        "policy_kl_error": estimate(-error, kind, arrays),
        "approx_entropy": -arrays.exp(now - engine) * now,
    }
    if settings.clips:
        inside = arrays.within(raw, 1 - settings.ratio_clip_min, 1 + settings.ratio_clip_max)
        means["ratio_clipped"] = -inside + 1.0
    if tokens.chosen is not None:
        means["covariance_chosen_ratio"] = tokens.chosen
    if parts.kept is not None:
        means["rejected_ratio"] = -parts.kept + 1.0
    sums = {name: arrays.number(arrays.total(x)) / max(totals.measured.tokens, 1) for name, x in means.items()}
    sums |= _weight_sums(parts.weights, tokens, totals, settings, arrays)
    sums["loss"] = arrays.number(arrays.detach(parts.loss))
    sums["num_valid_samples"] = float(tokens.n_rows)
    if parts.divergence is not None:
        sums["kl_penalty"] = arrays.number(arrays.detach(parts.divergence))
    if parts.entropy is not None:
        sums["entropy"] = arrays.number(arrays.detach(parts.entropy))
    if parts.likelihood is not None:
        sums["positive_nll"] = arrays.number(arrays.detach(parts.likelihood))
    if not arrays.size(raw):
        return LossMetrics(sums)
    ends = {"probs_ratio": raw, "probs_ratio_clamped": clipped}
    return LossMetrics(
        sums,
        {f"{name}_min": arrays.smallest(x) for name, x in ends.items()},
        {f"{name}_max": arrays.largest(x) for name, x in ends.items()},
    )


def _weight_sums(
    weights: SamplingWeights[A],
    tokens: TrainedTokens[A],
    totals: BatchTotals,
    settings: LossSettings,
    arrays: Arrays[A],
) -> dict[str, float]:
    by_row = {
        "sampling_importance_ratio": settings.weighs_rows,
        "is_oob_ratio": settings.truncated_importance_sampling_type == "seq-mask-tis",
    }
    values = {"sampling_importance_ratio": weights.values, "is_oob_ratio": weights.outside}
    means = {name: row_means(x, tokens, arrays) if by_row[name] else x for name, x in values.items()}
    n = {name: max(totals.measured.rows if by_row[name] else totals.measured.tokens, 1) for name in means}
    return {name: arrays.number(arrays.total(x)) / n[name] for name, x in means.items()}
