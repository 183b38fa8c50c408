"""What the loss is made from: the trained tokens of a micro-batch, and how many the whole batch has.

Shapes  flat arrays, one entry per trained token (see `arrays`). What is masked is not here, so that no value there, not
        even NaN, can reach the loss or a gradient.
"""

from typing import Generic, NamedTuple

from paddock.training.core.arrays import A, Arrays
from paddock.training.core.settings import LossSettings


class Tokens(NamedTuple, Generic[A]):
    """The trained tokens of a micro-batch."""

    log_probs: A
    """Of the trainer now; the only ones with a gradient."""
    engine_log_probs: A
    """When they were sampled."""
    advantages: A
    rows: A
    """Index of each token's row in the micro-batch, from 0; integers."""
    n_rows: int
    before: A | None = None
    """The trainer's with the weights that the step began with; None: those of now, as they are while one optimiser step
    is all that a batch gets."""
    reference_log_probs: A | None = None
    """Of the reference policy; needed where `reference_policy_kl_penalty` is above 0."""


class Totals(NamedTuple):
    """Of the whole batch of an optimiser step, over all its micro-batches and processes."""

    tokens: int
    """Trained on."""
    rows: int
    """With at least one trained token."""


def before_of(tokens: Tokens[A], settings: LossSettings, arrays: Arrays[A]) -> A:
    if tokens.before is None or settings.force_on_policy_ratio:
        return arrays.detach(tokens.log_probs)
    return tokens.before


def row_means(x: A, tokens: Tokens[A], arrays: Arrays[A]) -> A:
    """One entry per row; 0 for a row without tokens."""
    lengths = arrays.row_totals(arrays.full(x, 1.0), tokens.rows, tokens.n_rows)
    return arrays.row_totals(x, tokens.rows, tokens.n_rows) / arrays.clamp(lengths, 1.0, None)
