"""The inputs of the loss: the trained tokens of a micro-batch, and how many the whole batch has.

Shapes  flat arrays, one entry per trained token (see `arrays`). Masked tokens are left out, so that no value there, not
        even NaN, can reach the loss or a gradient.
"""

from typing import Generic, NamedTuple

from paddock.training.core.arrays import A, Arrays
from paddock.training.core.loss_settings import LossSettings


class TrainedTokens(NamedTuple, Generic[A]):
    """The trained tokens of a micro-batch. Arrays are flat, `[tokens]`; log-probs are in nats."""

    log_probs: A
    """The trainer's log-probs under the current weights; with a gradient, which but for `entropies` no other array
    has."""
    engine_log_probs: A
    """The engine's log-probs when it sampled the tokens."""
    advantages: A
    rows: A
    """`[tokens]`, integers: the index of each token's row in the micro-batch, from 0."""
    n_rows: int
    old_log_probs: A | None = None
    """The trainer's log-probs under the weights that the step began with; None: `log_probs`, to which they are equal
    where a batch is one optimiser step."""
    reference_log_probs: A | None = None
    """The reference policy's log-probs; needed where `reference_policy_kl_penalty` is above 0."""
    entropies: A | None = None
    """The entropy of the policy's distribution at each token, under the current weights, in nats, with a gradient
    where `LossSettings.needs_entropies`, which needs them; else for the metric alone."""
    unit_tokens: A | None = None
    """`[rows]`: the trained tokens of the rollout or prompt that each row is of, over the whole batch; needed where
    `LossSettings.mean_over` is not `rows`."""
    positive: A | None = None
    """1 where the token's row has a reward above 0; needed where `positive_example_nll_weight` is above 0."""
    chosen: A | None = None
    """1 where the token is chosen by its covariance; needed where `LossSettings.chooses_tokens`."""


class BatchTotals(NamedTuple):
    """Counts over the whole batch of an optimiser step: all its micro-batches, of all processes. The loss is divided by
    them."""

    tokens: int
    """Trained tokens."""
    rows: int
    """Rows with at least one trained token."""
    units: int = 0
    """Rollouts or prompts with such a row, where `LossSettings.mean_over` is one of them."""
    positive_tokens: int = 0
    """Trained tokens of rows with a reward above 0."""
    computed: "BatchTotals | None" = None
    """The counts of the rows that are computed; metrics are means over those. None: all are. Rows without an advantage,
    which change no gradient, may be left out (`LossSettings.needs_every_row`)."""

    @property
    def measured(self) -> "BatchTotals":
        """What metrics are divided by."""
        return self if self.computed is None else self.computed


def old_log_probs_of(tokens: TrainedTokens[A], settings: LossSettings, arrays: Arrays[A]) -> A:
    """`[tokens]`, without a gradient: the log-probs that the ratio is taken of."""
    if tokens.old_log_probs is None or settings.force_on_policy_ratio:
        return arrays.detach(tokens.log_probs)
    return tokens.old_log_probs


def row_means(x: A, tokens: TrainedTokens[A], arrays: Arrays[A]) -> A:
    """Means of `x` `[tokens]` by row: `[rows]`; 0 for a row without tokens."""
    lengths = arrays.row_totals(arrays.full(x, 1.0), tokens.rows, tokens.n_rows)
    return arrays.row_totals(x, tokens.rows, tokens.n_rows) / arrays.clamp(lengths, 1.0, None)
