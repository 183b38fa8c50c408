"""From a group's comparisons to its rewards and what they are made of.

Judge   `simple_tiebreaker`: the mean of the scores that a member got; of a comparison with equal scores the first gets
        3.5 - ranking more and the second as much less. `bradley_terry`: see there.
Others  of `adjustments`, added to it; the components of a member sum to its reward.
Group   who is in `members` gets a reward; a comparison may also touch one who is not (its own verdict failed): it
        counts for the other. A group of one that was compared with nobody gets `default_score` and nothing else.
Errors  ValueError for a member that nobody was compared with, or twice in the group, or without traits: a caller's
        mistake; no neutral score stands in.
"""

import math
from collections.abc import Mapping, Sequence

from paddock.resources_servers.genrm.config import RewardSettings
from paddock.resources_servers.genrm.records import GroupRewards, PairComparison, ResponseTraits
from paddock.resources_servers.genrm.scoring import adjustments, bradley_terry

MIDDLE_RANKING = 3.5
"""Of the scale 1 to 6: neither is better."""


def group_rewards(
    members: Sequence[int],
    comparisons: Sequence[PairComparison],
    traits: Mapping[int, ResponseTraits],
    settings: RewardSettings,
) -> GroupRewards:
    """Score a group. `members` are their numbers, in any order; `comparisons` all of them, in any order.

    `traits` are by member number. Raises ValueError as above.
    """
    group = sorted(set(members))
    _require(group, members, comparisons, traits)
    if len(group) == 1 and not comparisons:
        return GroupRewards({group[0]: settings.default_score}, {group[0]: {"judge": settings.default_score}})
    if settings.aggregator_method == "bradley_terry":
        judge, ties = bradley_terry.scores(group, comparisons), 0
    else:
        judge, ties = mean_scores(group, comparisons), sum(map(tied, comparisons))
    added = adjustments.reward_adjustments(judge, traits, settings)
    components = {
        member: {"judge": judge[member]} | {name: values[member] for name, values in added.items()} for member in group
    }
    rewards = {member: math.fsum(parts.values()) for member, parts in components.items()}
    return GroupRewards(rewards, components, ties)


def mean_scores(members: Sequence[int], comparisons: Sequence[PairComparison]) -> dict[int, float]:
    """Return the mean of the scores that each of `members` got, equal ones moved apart by the ranking."""
    received: dict[int, list[float]] = {member: [] for member in members}
    for comparison in comparisons:
        moved = MIDDLE_RANKING - comparison.ranking if tied(comparison) else 0.0
        received.setdefault(comparison.response_i, []).append(comparison.score_1 + moved)
        received.setdefault(comparison.response_j, []).append(comparison.score_2 - moved)
    return {member: math.fsum(received[member]) / len(received[member]) for member in members}


def tied(comparison: PairComparison) -> bool:
    """Say whether the scores are equal, so that the ranking is used."""
    return comparison.score_1 == comparison.score_2


def _require(
    group: Sequence[int],
    members: Sequence[int],
    comparisons: Sequence[PairComparison],
    traits: Mapping[int, ResponseTraits],
) -> None:
    if not group or len(group) != len(members):
        raise ValueError(f"members {list(members)}: at least one, each once")
    touched = {member for comparison in comparisons for member in (comparison.response_i, comparison.response_j)}
    alone = [member for member in group if member not in touched]
    if alone and (len(group) > 1 or comparisons):
        raise ValueError(f"members {alone} were compared with nobody, so they have no score")
    bare = [member for member in group if member not in traits]
    if bare:
        raise ValueError(f"members {bare} have no traits")
