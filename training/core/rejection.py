"""Tokens and rows that are left out, because trainer and engine are too far apart: `kept`.

Formula d = trainer's log-prob before the step - engine's, within 20 both ways; k1 = -d, k2 = d^2 / 2, k3 = exp(d) - 1 -
        d, of each token, or the sum, mean or largest over its row.
Source  verl 0.9, `compute_rollout_rejection_mask`. There a token that is left out is taken from the divisor of the mean
        as well; here divisors are known before (`loss.py`). `negative_only`: DeepSeek-V3.2 (arXiv 2512.02556) and TRL's
        `off_policy_mask_threshold`, which take the current weights for the trainer's.
"""

from paddock.training.core import kl
from paddock.training.core.arrays import A, Arrays
from paddock.training.core.loss_inputs import TrainedTokens, row_means
from paddock.training.core.loss_settings import LossSettings, RejectionSettings

LARGEST_DIFFERENCE = 20.0


def kept(tokens: TrainedTokens[A], old_log_probs: A, settings: LossSettings, arrays: Arrays[A]) -> A:
    """`[tokens]`: 1 where no rejection leaves the token out, else 0. `old_log_probs` `[tokens]`: the trainer's before
    the step. What is no number is left out."""
    difference = arrays.clamp(
        arrays.detach(old_log_probs - tokens.engine_log_probs), -LARGEST_DIFFERENCE, LARGEST_DIFFERENCE
    )
    found = arrays.full(difference, 1.0)
    for rejection in settings.rejections:
        found = found * _within(difference, rejection, tokens, arrays)
    return found


def _within(difference: A, rejection: RejectionSettings, tokens: TrainedTokens[A], arrays: Arrays[A]) -> A:
    values = kl.estimate(difference, rejection.estimate, arrays)
    low, high = rejection.bounds
    if rejection.level == "token":
        inside = arrays.within(values, low, high)
    elif rejection.level == "seq_max":
        outside = -arrays.within(values, low, high) + 1.0
        n_outside = arrays.row_totals(outside, tokens.rows, tokens.n_rows)
        inside = arrays.of_rows(arrays.within(n_outside, None, 0.5), tokens.rows)
    else:
        is_sum = rejection.level == "seq_sum"
        of_row = arrays.row_totals(values, tokens.rows, tokens.n_rows) if is_sum else row_means(values, tokens, arrays)
        inside = arrays.of_rows(arrays.within(of_row, low, high), tokens.rows)
    if not rejection.negative_only:
        return inside
    return arrays.where(arrays.within(tokens.advantages, 0.0, None), arrays.full(inside, 1.0), inside)
