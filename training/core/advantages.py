"""The advantage of each member of a group: how much better it was than the others.

Formula `reward - baseline`. The baseline is the mean of the others (leave-one-out; RLOO, arXiv 2402.14740) or of all
        (GRPO, arXiv 2402.03300). Normalised: divided by `std + 1e-6`, the standard deviation (with n - 1) of just
        those that the baseline is the mean of, or of all rewards of the batch. Where it is 0, or of a single one,
        nothing is divided: a member whose others are all alike keeps its difference. Clipped last.
Others  REINFORCE++: the reward, less the group's mean; the training step makes of it each token's
        (`token_advantages.py`). MaxRL: `(reward - mean) / (mean + 1e-6)`; 0 where the mean is not above 0. Pass@k
        (arXiv 2503.19595): the best member has `best - second`, normalised by the group's deviation, the others 0.
        GDPO: `gdpo.py`.
Source  NeMo-RL, `calculate_baseline_and_std_per_prompt` and `GRPOAdvantageEstimator`; SkyRL for MaxRL, verl for pass@k,
        TRL (`scale_rewards: batch`).
Law     a member without a reward has no advantage, and no other's depends on its being there.
"""

import math
from collections.abc import Sequence
from statistics import fmean

from paddock.errors import ConfigError
from paddock.training.core.settings import GrpoSettings

STD_EPSILON = 1e-6


def advantages(
    rewards: Sequence[float | None], grpo: GrpoSettings, *, batch_std: float | None = None
) -> list[float | None]:
    """The advantages of one group's members, in order; None where there is no reward. A single reward has nothing to be
    compared with: its advantage is 0, but for REINFORCE++ without a baseline. `batch_std`: `batch_deviation` of all
    groups. ValueError where it is needed and missing."""
    given = [reward for reward in rewards if reward is not None]
    values = iter(_group(given, grpo, batch_std))
    return [None if reward is None else next(values) for reward in rewards]


def group_advantages(rewards: Sequence[float | None], grpo: GrpoSettings) -> list[float | None]:
    """The advantages of one group's members, for trainers that see one group at a time. ConfigError where the estimator
    needs all groups of a step."""
    estimator = grpo.adv_estimator
    over_batch = estimator.normalize_over == "batch" and grpo.normalize_rewards
    if over_batch or estimator.name in ("gdpo", "reinforce_plus_plus"):
        raise ConfigError(
            "grpo.adv_estimator: REINFORCE++, GDPO and `normalize_over: batch` normalise over all groups of a step, "
            "and this trainer is given one at a time: take `grpo` over `group`",
            kind="config_invalid",
        )
    return advantages(rewards, grpo)


def batch_deviation(rewards: Sequence[float | None]) -> float:
    """The standard deviation (with n - 1) of all rewards of a batch."""
    return _std([reward for reward in rewards if reward is not None])


def _group(rewards: Sequence[float], grpo: GrpoSettings, batch_std: float | None) -> list[float]:
    estimator = grpo.adv_estimator
    if estimator.name == "reinforce_plus_plus":
        mean = _mean(rewards) if estimator.minus_baseline and rewards else 0.0
        return [reward - mean for reward in rewards]
    if len(rewards) < 2:
        return [0.0 for _ in rewards]
    if estimator.name == "maxrl":
        return [_clip(value, grpo) for value in _maxrl(rewards)]
    if estimator.name == "grpo_passk":
        return [_clip(value, grpo) for value in _pass_at_k(rewards, grpo)]
    if estimator.normalize_over == "batch" and grpo.normalize_rewards and batch_std is None:
        raise ValueError("adv_estimator.normalize_over `batch` needs all groups of a step at once")
    return [_clip(_advantage(rewards, nth, grpo, batch_std), grpo) for nth in range(len(rewards))]


def _advantage(rewards: Sequence[float], nth: int, grpo: GrpoSettings, batch_std: float | None) -> float:
    others = [*rewards[:nth], *rewards[nth + 1 :]] if grpo.use_leave_one_out_baseline else rewards
    advantage = rewards[nth] - _mean(others)
    if not grpo.normalize_rewards:
        return advantage
    if grpo.adv_estimator.normalize_over == "batch" and batch_std is not None:
        return _normalised(advantage, batch_std)
    return _normalised(advantage, _std(others))


def _maxrl(rewards: Sequence[float]) -> list[float]:
    mean = _mean(rewards)
    return [(reward - mean) / (mean + STD_EPSILON) if mean > 0 else 0.0 for reward in rewards]


def _pass_at_k(rewards: Sequence[float], grpo: GrpoSettings) -> list[float]:
    second, best = sorted(rewards)[-2:]
    ahead = _normalised(best - second, _std(rewards)) if grpo.normalize_rewards else best - second
    at = rewards.index(best)
    return [ahead if nth == at else 0.0 for nth in range(len(rewards))]


def _normalised(advantage: float, std: float) -> float:
    return advantage / (std + STD_EPSILON) if std > 0 else advantage


def _mean(values: Sequence[float]) -> float:
    """The mean, which for equal values is exactly that value, however it was rounded."""
    return min(max(fmean(values), min(values)), max(values))


def _std(values: Sequence[float]) -> float:
    if len(values) < 2 or min(values) == max(values):
        return 0.0
    mean = _mean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _clip(advantage: float, grpo: GrpoSettings) -> float:
    low, high = grpo.advantage_bounds
    return min(max(advantage, low), high)
