"""The reward that training sees, made of the environment's: `shaped`. What is on the disk stays the environment's.

Formula penalised (`reward_penalties.py`), scaled, then shaped. Scaling: the reward, bounded by the ends of the source,
        mapped linearly onto the target.
        `overlong` (soft overlong punishment, DAPO, arXiv 2503.14476): with n sampled tokens, of which
        `max_response_length - overlong_buffer_length` are free, less `overlong_buffer_penalty` for each full buffer
        beyond, in proportion, at most once. `stop_properly`: the reward of a truncated rollout, where it is above 0,
        times the coefficient.
        `turns`, `tokens`: less a penalty for each turn, or each 1,000 tokens, beyond those that are free.
Source  NeMo-RL, `scale_rewards` and `apply_reward_shaping`. There the length is that of the first answer; here it is of
        all tokens that a rollout sampled and that are proven, and a penalty never raises a reward: times a coefficient
        below 1, that of a forgery (-1) would be better truncated than not.
Law     a member without a reward stays as it is. The penalty of a leak is not scaled, and costs by length as all do:
        else a leak would be the way out of a rollout that has become long.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from paddock.training.core.records import Group, Member
from paddock.training.core.settings import GrpoSettings, RewardScalingSettings, RewardShapingSettings
from paddock.types import REWARDED


class ShapedReward(NamedTuple):
    """The reward of one member as training sees it."""

    reward: float
    components: Mapping[str, float]
    """What was added to the environment's reward, or to a leak's penalty, by name."""


def shape_groups(groups: Sequence[Group], grpo: GrpoSettings) -> tuple[list[Group], dict[str, list[float]]]:
    """The groups with shaped rewards, and each component's values; none where nothing changes them."""
    components: dict[str, list[float]] = {}
    penalised = any(member.penalties for group in groups for member in group.members)
    if not grpo.reward_scaling.enabled and not grpo.reward_shaping.enabled and not penalised:
        return list(groups), components
    found = []
    for group in groups:
        members = []
        for member in group.members:
            changed = shaped(member, grpo)
            for name, value in changed.components.items() if changed is not None else ():
                components.setdefault(name, []).append(value)
            members.append(member if changed is None else member._replace(reward=changed.reward))
        found.append(group._replace(members=tuple(members)))
    return found, components


def shaped(member: Member, grpo: GrpoSettings) -> ShapedReward | None:
    """The member's reward; None: it has none."""
    if member.reward is None:
        return None
    is_verdict = member.outcome in REWARDED
    own = min(member.reward, 0.0) if member.penalties and is_verdict else member.reward
    scaled = _scaled(own, grpo.reward_scaling) if is_verdict else own
    changes = {"penalties": own - member.reward, "scaling": scaled - own}
    components = {**changes, **_shaping(member, scaled, grpo.reward_shaping)}
    return ShapedReward(member.reward + sum(components.values()), components)


def _scaled(reward: float, scaling: RewardScalingSettings) -> float:
    if not scaling.enabled:
        return reward
    bounded = min(max(reward, scaling.source_min), scaling.source_max)
    share = (bounded - scaling.source_min) / (scaling.source_max - scaling.source_min)
    return scaling.target_min + share * (scaling.target_max - scaling.target_min)


def _shaping(member: Member, reward: float, shaping: RewardShapingSettings) -> dict[str, float]:
    if not shaping.enabled:
        return {}
    found = {}
    n_tokens = sum(int(entry.loss_mask.sum()) for entry in member.samples)
    overlong = shaping.overlong
    if overlong is not None:
        beyond = n_tokens - (overlong.longest - overlong.buffer)
        found["overlong"] = -overlong.penalty * min(max(beyond / overlong.buffer, 0.0), 1.0)
    if shaping.stop_properly_penalty_coef is not None:
        is_cut = member.outcome == "truncated"
        found["stop_properly"] = max(reward, 0.0) * (shaping.stop_properly_penalty_coef - 1) if is_cut else 0.0
    if shaping.turn_penalty:
        found["turns"] = -shaping.turn_penalty * max(member.turns - shaping.free_turns, 0)
    if shaping.token_penalty_per_1k:
        found["tokens"] = -shaping.token_penalty_per_1k * max(n_tokens - shaping.free_tokens, 0) / 1000
    return found
