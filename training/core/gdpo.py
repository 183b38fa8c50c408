"""GDPO: each part of the reward is compared with the group by itself, so that none drowns in another's scale.

Formula the advantage of each part within its group is that of `grpo` (`advantages.py`), times the part's weight; their
        sum is normalised over all members of the step that have a reward: less the mean, divided by the standard
        deviation (with n - 1), unless that is 0. Clipped last.
Alike   values of a part that are the same in a group, up to rounding, give no advantage.
Parts   the verdict's `reward_components`, by name. What they do not sum to is one more, of weight 1: the reward of a
        verdict without parts, a leak's penalty, what scaling and shaping change. A part that a member lacks is 0.
Source  arXiv 2601.05242; NeMo-RL, `GDPOAdvantageEstimator`, which knows no such rest and leaves it out.
Errors  ConfigError `reward_weights`: a list of weights that is not as long as the list of parts.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev

from paddock.errors import ConfigError
from paddock.training.core.advantages import advantages
from paddock.training.core.records import Group, Member
from paddock.training.core.settings import GrpoSettings
from paddock.types.records import COMPONENTS_TOLERANCE

REST = ""
"""Name of the part that a verdict's own do not sum to."""


def gdpo_advantages(groups: Sequence[Group], grpo: GrpoSettings) -> list[list[float | None]]:
    """The advantages of the members of each group of a step, in order; None where there is no reward."""
    summed = [part_sums(group, grpo) for group in groups]
    values = [value for of_group in summed for value in of_group if value is not None]
    mean = fmean(values) if values else 0.0
    # Within each group parts sum to 0, up to rounding: what has no advantage keeps none.
    if abs(mean) <= COMPONENTS_TOLERANCE * max(map(abs, values), default=0.0):
        mean = 0.0
    deviation = stdev(values) if len(values) > 1 else 0.0
    low, high = grpo.advantage_bounds

    def normalised(value: float) -> float:
        return min(max((value - mean) / deviation if deviation > 0 else value - mean, low), high)

    return [[None if value is None else normalised(value) for value in of_group] for of_group in summed]


def part_sums(group: Group, grpo: GrpoSettings) -> list[float | None]:
    """The weighted sums of the parts' advantages of a group's members, before they are normalised over the step."""
    members = [(nth, member.reward) for nth, member in enumerate(group.members) if member.reward is not None]
    sums: dict[int, list[float]] = {nth: [] for nth, _ in members}
    by_member = [parts_of(group.members[nth], reward) for nth, reward in members]
    names = sorted({name for parts in by_member for name in parts})
    weights = _weights([name for name in names if name != REST], grpo)
    bounds = {"advantage_clip_low": None, "advantage_clip_high": None}
    by_group = grpo.adv_estimator.model_copy(update={"name": "grpo", "normalize_over": "group"})
    own = grpo.model_copy(update={**bounds, "adv_estimator": by_group})
    for name in names:
        values = [parts.get(name, 0.0) for parts in by_member]
        # Rounding, normalised over a step that has nothing else, would be as large as any advantage.
        alike = max(values) - min(values) <= _rounding(values)
        found = [0.0] * len(values) if alike else advantages(values, own)
        for (nth, _), value in zip(members, found, strict=True):
            sums[nth].append(weights.get(name, 1.0) * (value or 0.0))
    return [math.fsum(sums[nth]) if nth in sums else None for nth in range(len(group.members))]


def parts_of(member: Member, reward: float) -> dict[str, float]:
    """The parts of a member's reward, the rest among them where there is one."""
    parts = dict(member.reward_components)
    rest = reward - math.fsum(parts.values())
    return parts if parts and abs(rest) <= _rounding(parts.values()) else {**parts, REST: rest}


def _rounding(values: Iterable[float]) -> float:
    """What sums of such values may be apart, and mean the same."""
    return COMPONENTS_TOLERANCE * max([1.0, *map(abs, values)])


def _weights(names: Sequence[str], grpo: GrpoSettings) -> Mapping[str, float]:
    given = grpo.adv_estimator.reward_weights
    if given is None or isinstance(given, Mapping) or not names:
        return given if isinstance(given, Mapping) else {}
    if len(given) != len(names):
        raise ConfigError(
            f"grpo.adv_estimator.reward_weights: {len(given)} weights for the {len(names)} parts of rewards here "
            f"({', '.join(names)}): give one for each in this order, or weights by name",
            kind="reward_weights",
        )
    return dict(zip(names, given, strict=True))
