"""The advantages of REINFORCE++ (arXiv 2501.03262), which differ from token to token and need all rows of a step.

Formula `a = advantage - k`, normalised over the trained tokens of the step: `(a - mean) / sqrt(max(variance, 1e-8))`,
        the variance with n; clipped last. The advantage is the reward, or the reward less the group's mean. k is what
        `loss_fn.use_kl_in_reward` takes off (`kl.reward_penalty`), of the token or summed from it to the last of its
        sample (`kl_credit`); without that key 0.
Source  NeMo-RL's `ReinforcePlusPlusAdvantageEstimator`; verl's `compute_reinforce_plus_plus_outcome_advantage`.
        NeMo-RL's takes the variance as a difference of squares in float32, where rewards that are all alike may have
        one of 1e-8; here they have 0.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from paddock.training.core.gae import discounted_sums
from paddock.training.core.records import TrainRow
from paddock.training.core.settings import GrpoSettings

SMALLEST_VARIANCE = 1e-8
TokenNumbers = npt.NDArray[np.float64]
"""Of the trained tokens of a row, `[tokens]`."""


def reinforce_plus_plus(
    rewards: Sequence[TokenNumbers], penalties: Sequence[TokenNumbers] | None, grpo: GrpoSettings
) -> list[TokenNumbers]:
    """The advantages of each row. `rewards`: of each row those before it; `penalties`: what the KL takes off each
    token's reward; None: nothing."""
    if penalties is not None:
        to_go = grpo.adv_estimator.kl_credit == "reward_to_go"
        charges = [discounted_sums(own, 1.0) if to_go else own for own in penalties]
        rewards = [reward - charge for reward, charge in zip(rewards, charges, strict=True)]
    n = sum(map(len, rewards))
    if not n:
        return list(rewards)
    mean = math.fsum(float(row.sum()) for row in rewards) / n
    variance = math.fsum(float(((row - mean) ** 2).sum()) for row in rewards) / n
    scale = math.sqrt(max(variance, SMALLEST_VARIANCE))
    return [np.clip((row - mean) / scale, *grpo.advantage_bounds) for row in rewards]


def with_advantages(rows: Sequence[TrainRow], advantages: Mapping[int, TokenNumbers]) -> list[TrainRow]:
    """The rows, those of these indices with other advantages of their trained tokens."""
    replaced = list(rows)
    for nth, own in advantages.items():
        by_id = rows[nth].advantages.copy()
        by_id[rows[nth].loss_mask] = own
        replaced[nth] = rows[nth]._replace(advantages=by_id)
    return replaced
