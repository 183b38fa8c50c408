"""Advantages by a critic: generalised advantage estimation (GAE), token by token.

Formula `A_t = sum over l of (gamma lambda)^l d_{t+l}`, `d_t = r_t + gamma V_{t+1} - V_t`, and the return `A_t + V_t`,
        over the trained tokens of a sample, one after the other: what stands between them (tools' answers) takes no
        time. V_t is the value before token t, that behind the last is 0; the rollout's reward is the last token's, less
        what `loss_fn.use_kl_in_reward` takes off each.
VAPO    returns may have a lambda of their own, and advantages one by the length of the sample (arXiv 2504.05118).
Source  GAE (arXiv 1506.02438), PPO (arXiv 1707.06347); verl's `compute_gae_advantage_return`, with its `masked_whiten`;
        NeMo-RL's `GeneralizedAdvantageEstimator`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 256
"""Tokens that are summed at once."""


class TokenCredits(NamedTuple):
    """Of the trained tokens of a sample, `[tokens]`, float64."""

    advantages: "NDArray[np.float64]"
    returns: "NDArray[np.float64]"
    """What the critic is to predict."""


def token_rewards(
    reward: float, n_tokens: int, penalties: "NDArray[np.float64] | None" = None
) -> "NDArray[np.float64]":
    """The reward of each trained token of a sample: the last has the rollout's, and each less its penalty."""
    rewards = np.zeros(n_tokens) if penalties is None else -penalties
    rewards[-1:] += reward
    return rewards


def gae(
    values: "NDArray[np.floating]",
    rewards: "NDArray[np.float64]",
    *,
    gamma: float,
    lam: float,
    lam_returns: float | None = None,
) -> TokenCredits:
    """The credits of a sample by the critic's values and the rewards of its tokens, both `[tokens]`. `lam_returns`: the
    lambda of returns; None: that of advantages."""
    own = values.astype(np.float64)
    differences = rewards + gamma * np.append(own[1:], 0.0) - own
    advantages = discounted_sums(differences, gamma * lam)
    if lam_returns is None or lam_returns == lam:
        return TokenCredits(advantages, advantages + own)
    return TokenCredits(advantages, discounted_sums(differences, gamma * lam_returns) + own)


def discounted_sums(x: "NDArray[np.float64]", factor: float) -> "NDArray[np.float64]":
    """`[n]`: of each entry the sum of it and all behind it, the l-th of them times `factor ** l`."""
    n_blocks = -(-len(x) // BLOCK)
    padded = np.zeros(n_blocks * BLOCK)
    padded[: len(x)] = x
    powers = factor ** np.arange(BLOCK + 1, dtype=np.float64)
    apart = np.arange(BLOCK)[:, None] - np.arange(BLOCK)[None, :]
    # Entry [later, earlier]: how much an entry counts in the sum of an earlier one.
    weights = np.where(apart >= 0, powers[np.maximum(apart, 0)], 0.0)
    sums = padded.reshape(n_blocks, BLOCK) @ weights
    for nth in reversed(range(n_blocks - 1)):
        sums[nth] += powers[BLOCK - np.arange(BLOCK)] * sums[nth + 1, 0]
    return sums.reshape(-1)[: len(x)]


def whitened(advantages: "Sequence[NDArray[np.float64]]") -> "list[NDArray[np.float64]]":
    """The advantages of all samples with mean 0 and variance 1 over all their tokens; a single token is 0."""
    every = np.concatenate(advantages) if advantages else np.zeros(0)
    if len(every) < 2:
        return [np.zeros_like(own) for own in advantages]
    mean, deviation = every.mean(), np.sqrt(every.var(ddof=1) + 1e-8)
    return [(own - mean) / deviation for own in advantages]
