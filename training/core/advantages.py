"""The advantage of each member of a group: how much better it was than the others.

Formula `reward - baseline`. The baseline is the mean of the others (leave-one-out; RLOO, arXiv 2402.14740) or of all
        (GRPO, arXiv 2402.03300). Normalised: divided by `std + 1e-6`, the standard deviation (with n - 1) of just
        those that the baseline is the mean of. Where it is 0, or of a single one, nothing is divided: a member whose
        others are all alike keeps its difference. Clipped last.
Source  NeMo-RL, `calculate_baseline_and_std_per_prompt` and `GRPOAdvantageEstimator`. Theirs takes the variance as a
        difference of squares in float32, where rewards that are all alike may have one of 1e-8; here they have 0.
Law     a member without a reward has no advantage, and no other's depends on its being there.
"""

import math
from collections.abc import Sequence
from statistics import fmean

from paddock.training.core.settings import GrpoSettings

STD_EPSILON = 1e-6


def advantages(rewards: Sequence[float | None], grpo: GrpoSettings) -> list[float | None]:
    """The advantages of one group's members, in order; None where there is no reward. A single reward has nothing to be
    compared with: its advantage is 0."""
    given = [reward for reward in rewards if reward is not None]
    values = iter([_advantage(given, nth, grpo) for nth in range(len(given))])
    return [None if reward is None else next(values) for reward in rewards]


def _advantage(rewards: Sequence[float], nth: int, grpo: GrpoSettings) -> float:
    if len(rewards) < 2:
        return 0.0
    others = [*rewards[:nth], *rewards[nth + 1 :]] if grpo.use_leave_one_out_baseline else rewards
    advantage = rewards[nth] - _mean(others)
    std = _std(others)
    if grpo.normalize_rewards and std > 0:
        advantage /= std + STD_EPSILON
    return _clip(advantage, grpo)


def _mean(values: Sequence[float]) -> float:
    """The mean, which for equal values is exactly that value, however it was rounded."""
    return min(max(fmean(values), min(values)), max(values))


def _std(values: Sequence[float]) -> float:
    if len(values) < 2 or min(values) == max(values):
        return 0.0
    mean = _mean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _clip(advantage: float, grpo: GrpoSettings) -> float:
    low, high = grpo.advantage_clip_low, grpo.advantage_clip_high
    if low is not None:
        advantage = max(advantage, low)
    return advantage if high is None else min(advantage, high)
