"""Rewards of a batch as slime's losses take them, from rollouts that have a verdict alone.

Formula as slime's own for groups whose members all have one: reward minus the group's mean, divided by the standard
        deviation (of a sample, plus 1e-6) where `--grpo-std-normalization` asks for it; for the estimators that slime
        normalises (grpo, gspo, cispo, reinforce_plus_plus_baseline). A rollout of several samples counts once.
Failed  a rollout without a verdict enters no mean and no deviation; its own reward here is 0, which its mask of zeros
        keeps from the loss, and its raw reward, for slime's log, is its group's mean.
Source  THUDM/slime, `slime/ray/rollout.py`: `RolloutManager._post_process_rewards`.
"""

from statistics import fmean, stdev
from typing import Any

from paddock.training.slime.samples import MASK

GROUP_NORMALISED = ("grpo", "gspo", "cispo", "reinforce_plus_plus_baseline")
STD_NORMALISED = ("grpo", "gspo", "cispo")


def post_process_rewards(args: Any, samples: list[Any]) -> tuple[list[float], list[float]]:
    """Raw rewards and those of the loss, one of each per sample."""
    groups: dict[int, dict[int, float]] = {}
    for sample in samples:
        members = groups.setdefault(sample.group_index, {})
        if MASK not in sample.metadata:
            members[_rollout(sample)] = float(sample.get_reward_value(args))
    means = {group: fmean(members.values()) if members else 0.0 for group, members in groups.items()}
    raw = [
        means[sample.group_index] if MASK in sample.metadata else float(sample.get_reward_value(args))
        for sample in samples
    ]
    if args.advantage_estimator not in GROUP_NORMALISED or not args.rewards_normalization:
        return raw, raw
    by_std = args.advantage_estimator in STD_NORMALISED and args.grpo_std_normalization
    scales = {group: _scale(list(members.values())) if by_std else 1.0 for group, members in groups.items()}
    rewards = [
        (value - means[sample.group_index]) / scales[sample.group_index]
        for sample, value in zip(samples, raw, strict=True)
    ]
    return raw, rewards


def _rollout(sample: Any) -> int:
    return int(sample.index if sample.rollout_id is None else sample.rollout_id)


def _scale(rewards: list[float]) -> float:
    return (stdev(rewards) if len(rewards) > 1 else 0.0) + 1e-6
