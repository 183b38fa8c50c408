"""How good the judges of a group were, by their comparisons alone: counts, and the shares that follow from them.

Preference  of a comparison: who has the higher score; of equal scores whom the ranking puts on its side of 3.5; else
            none. Of a pair: who is preferred by more of its comparisons, in whatever order; else none.
Swap        pairs that one judge saw in both orders; they agree when the same member (or none) is preferred.
Position    comparisons with a preference; the share that prefers who was first: 1/2 where order does not matter.
Cycles      triangles, each of whose three pairs has a preference; a cycle goes round (a over b over c over a). The ring
            is all members by number, each compared with the next and the last with the first, four or more of them: it
            is a cycle when all preferences go round the same way.
Abstention  comparisons without a preference; apart from that, answers that left out a score or the ranking.
Judges      pairs of judges that saw two members in one order; they agree when their preferences do.
Units       counts; shares from 0 to 1, None where nothing was there to share.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Self

from paddock.resources_servers.genrm.records import PairComparison
from paddock.resources_servers.genrm.scoring.aggregation import MIDDLE_RANKING
from paddock.types import Record

SMALLEST_RING = 4
"""Of fewer members the ring is a triangle, which is counted as such, or a pair."""

Preferences = Mapping[tuple[int, int], int]
"""Of two members, the lower number first: 1: the first is preferred, -1: the second, 0: neither."""


class Quality(Record):
    """Of a group, or of several: `+` adds what was counted."""

    comparisons: int = 0
    preferring: int = 0
    """Comparisons with a preference."""
    first_preferred: int = 0
    incomplete: int = 0
    """Answers that left something out."""
    swapped: int = 0
    """Pairs that one judge saw in both orders."""
    swap_agreeing: int = 0
    judge_pairs: int = 0
    judges_agreeing: int = 0
    triangles: int = 0
    cycles: int = 0
    rings: int = 0
    ring_cycles: int = 0

    def __add__(self, other: Self) -> Self:
        counts = other.model_dump()
        return type(self)(**{name: count + counts[name] for name, count in self.model_dump().items()})

    @property
    def swap_consistency(self) -> float | None:
        return _share(self.swap_agreeing, self.swapped)

    @property
    def first_preference_rate(self) -> float | None:
        return _share(self.first_preferred, self.preferring)

    @property
    def cycle_rate(self) -> float | None:
        return _share(self.cycles, self.triangles)

    @property
    def ring_cycle_rate(self) -> float | None:
        """Of one group 0 or 1."""
        return _share(self.ring_cycles, self.rings)

    @property
    def abstention_rate(self) -> float | None:
        return _share(self.comparisons - self.preferring, self.comparisons)

    @property
    def incomplete_rate(self) -> float | None:
        return _share(self.incomplete, self.comparisons)

    @property
    def judge_agreement(self) -> float | None:
        return _share(self.judges_agreeing, self.judge_pairs)

    def as_metrics(self) -> dict[str, float]:
        """Return the shares by name; those that are None are left out."""
        shares = {
            "judge_swap_consistency": self.swap_consistency,
            "judge_first_preference_rate": self.first_preference_rate,
            "judge_cycle_rate": self.cycle_rate,
            "judge_ring_cycle_rate": self.ring_cycle_rate,
            "judge_abstention_rate": self.abstention_rate,
            "judge_incomplete_rate": self.incomplete_rate,
            "judge_agreement": self.judge_agreement,
        }
        return {"judge_comparisons": float(self.comparisons)} | {
            name: value for name, value in shares.items() if value is not None
        }


def quality_of(comparisons: Sequence[PairComparison]) -> Quality:
    """Count what one group's comparisons, in any order, say about its judges."""
    preferred = [preference(comparison) for comparison in comparisons]
    swaps, judges, pairs = _swaps(comparisons), _judges(comparisons), _pairs(comparisons)
    triangles = _triangles(pairs)
    ring = _ring(pairs)
    return Quality(
        comparisons=len(comparisons),
        preferring=sum(1 for comparison in preferred if comparison),
        first_preferred=sum(1 for comparison in preferred if comparison > 0),
        incomplete=sum(1 for comparison in comparisons if comparison.missing),
        swapped=len(swaps),
        swap_agreeing=sum(swaps),
        judge_pairs=len(judges),
        judges_agreeing=sum(judges),
        triangles=len(triangles),
        cycles=sum(triangles),
        rings=int(ring is not None),
        ring_cycles=int(ring or False),
    )


def pooled(groups: Iterable[Quality]) -> dict[str, float]:
    """Return the metrics of a run: shares of all that was counted, so a group weighs as much as it has comparisons."""
    return sum(groups, Quality()).as_metrics()


def preference(comparison: PairComparison) -> int:
    """1: the one that the judge saw first; -1: the second; 0: neither."""
    gap = comparison.score_1 - comparison.score_2 or MIDDLE_RANKING - comparison.ranking
    return _sign(gap)


def _swaps(comparisons: Iterable[PairComparison]) -> list[bool]:
    """For each pair and judge with both orders: do they agree?"""
    seen = _by_order(comparisons)
    return [
        votes == -seen[second, first, judge]
        for (first, second, judge), votes in seen.items()
        if first < second and (second, first, judge) in seen
    ]


def _judges(comparisons: Iterable[PairComparison]) -> list[bool]:
    """For each pair in one order and each two of its judges: do they agree?"""
    votes: dict[tuple[int, int], list[int]] = defaultdict(list)
    for (first, second, _), vote in _by_order(comparisons).items():
        votes[first, second].append(vote)
    return [left == right for preferences in votes.values() for left, right in combinations(preferences, 2)]


def _by_order(comparisons: Iterable[PairComparison]) -> dict[tuple[int, int, int], int]:
    """Preference by first, second and judge."""
    sums: dict[tuple[int, int, int], int] = defaultdict(int)
    for comparison in comparisons:
        sums[comparison.response_i, comparison.response_j, comparison.judge_idx] += preference(comparison)
    return {key: _sign(total) for key, total in sums.items()}


def _pairs(comparisons: Iterable[PairComparison]) -> Preferences:
    sums: dict[tuple[int, int], int] = defaultdict(int)
    for result in comparisons:
        swapped = result.response_i > result.response_j
        pair = (result.response_j, result.response_i) if swapped else (result.response_i, result.response_j)
        sums[pair] += -preference(result) if swapped else preference(result)
    return {pair: _sign(total) for pair, total in sums.items()}


def _triangles(pairs: Preferences) -> list[bool]:
    """For each triangle of preferences: is it a cycle?"""
    above: dict[int, set[int]] = defaultdict(set)
    for (low, high), preferred in pairs.items():
        if preferred:
            above[low].add(high)
    return [
        pairs[a, b] == pairs[b, c] == -pairs[a, c] for a in sorted(above) for b, c in _linked(above, sorted(above[a]))
    ]


def _linked(above: Mapping[int, set[int]], members: Sequence[int]) -> list[tuple[int, int]]:
    return [(b, c) for b, c in combinations(members, 2) if b in above and c in above[b]]


def _ring(pairs: Preferences) -> bool | None:
    """Is it a cycle? None: there is no ring, or not all of it was compared."""
    members = sorted({member for pair in pairs for member in pair})
    links = [*pairwise(members), *([(members[0], members[-1])] if members else [])]
    if len(members) < SMALLEST_RING or any(link not in pairs for link in links):
        return None
    around = [pairs[link] for link in links[:-1]] + [-pairs[links[-1]]]
    return around[0] != 0 and len(set(around)) == 1


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
