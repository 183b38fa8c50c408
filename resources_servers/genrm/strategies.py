"""Which pairs of a group to compare next.

circular   each member with the next by number, the last with the first: everybody is seen once first and once second.
all_pairs  (i, j) for i < j.
uncertain  the ring; when it is done, rounds of further pairs where the order is least certain, up to the budget.
Arrival    a pair is asked for as soon as both are there. A roster that was closed with gaps closes its ring over the
           members that are present, which keeps every pair that was asked before.
Certainty  of Bradley and Terry's model over the comparisons that are done: the chance that two stand in the wrong
           order, their gap taken as normal around the likeliest one; of equal chances, the gap's variance. A round
           takes the least certain pairs in turn, no member twice, so that its answers may come together.
Law        no pair twice in one order; any order of arrivals and answers ends in the same pairs; every run ends.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations

from paddock.resources_servers.genrm.config import ComparisonStrategy
from paddock.resources_servers.genrm.records import MemberPair, PairComparison
from paddock.resources_servers.genrm.scoring import bradley_terry

PAIRS_PER_MEMBER = 3
"""Budget of `uncertain` where none is given."""
ROUNDING_DIGITS = 9
"""Of chances and variances: what differs by less is equal, and then the lower numbers come first."""


def next_pairs(
    strategy: ComparisonStrategy,
    present: Sequence[int],
    size: int,
    complete: bool,
    done: Sequence[PairComparison],
    requested: AbstractSet[MemberPair],
    budget: int | None,
) -> list[MemberPair]:
    """Return the pairs to ask for now, none of them in `requested`.

    [] when `complete` and all that was requested is done: there will be no more.

    `present`: members, of those numbered below `size`; `complete`: no further one comes. `done`: comparisons of pairs
    that are through, with all their judges and orders. `budget`: pairs in all that `uncertain` may ask for; it bounds
    what follows the ring, for a member outside the ring could not be scored. None: three for each member.
    """
    members = sorted(present)
    if strategy == "all_pairs":
        wanted = [MemberPair(*pair) for pair in combinations(members, 2)]
    elif complete:
        wanted = list(_ring(members))
    else:
        there = set(members)
        # Not by way of all numbers below `size`: most of them may never come.
        nexts = [MemberPair(member, (member + 1) % size) for member in members] if size > 1 else []
        wanted = [pair for pair in nexts if pair.second in there]
    fresh = [pair for pair in wanted if pair not in requested]
    if fresh or strategy != "uncertain" or not complete:
        return fresh
    through = {MemberPair(comparison.response_i, comparison.response_j) for comparison in done}
    there = set(members)
    if any(pair not in through for pair in requested if there.issuperset(pair)):
        return []
    left = (PAIRS_PER_MEMBER * len(members) if budget is None else budget) - len(requested)
    return _round(members, done, requested)[: max(left, 0)]


def _ring(members: Sequence[int]) -> Iterator[MemberPair]:
    if len(members) > 1:
        for index, member in enumerate(members):
            yield MemberPair(member, members[(index + 1) % len(members)])


def _round(
    members: Sequence[int], done: Sequence[PairComparison], requested: AbstractSet[MemberPair]
) -> list[MemberPair]:
    """Choose pairs, the least certain first, no member twice."""
    busy: set[int] = set()
    chosen: list[MemberPair] = []
    for pair in _by_uncertainty(_open(members, requested), members, done):
        if busy.isdisjoint(pair):
            chosen.append(pair)
            busy.update(pair)
    return chosen


def _open(members: Sequence[int], requested: AbstractSet[MemberPair]) -> list[MemberPair]:
    """Return the pairs asked in neither order, each led by who was first less often; else the orders that are left."""
    lead = Counter(pair.first for pair in requested)
    lead.subtract(pair.second for pair in requested)
    pairs = [MemberPair(*pair) for pair in combinations(members, 2)]
    reverses = [MemberPair(pair.second, pair.first) for pair in pairs]
    new = [
        back if lead[pair.first] > lead[pair.second] else pair
        for pair, back in zip(pairs, reverses, strict=True)
        if pair not in requested and back not in requested
    ]
    return new or [pair for pair in [*pairs, *reverses] if pair not in requested]


def _by_uncertainty(
    pairs: Sequence[MemberPair], members: Sequence[int], done: Sequence[PairComparison]
) -> list[MemberPair]:
    fit = bradley_terry.fit_strengths(members, done)
    covariance = fit.covariance()
    index_of = {member: index for index, member in enumerate(fit.members)}

    def rank(pair: MemberPair) -> tuple[float, float, MemberPair]:
        first, second = index_of[pair.first], index_of[pair.second]
        gap = abs(fit.strengths[first] - fit.strengths[second])
        variance = covariance[first][first] + covariance[second][second] - 2 * covariance[first][second]
        wrong = 0.5 * math.erfc(gap / math.sqrt(2 * variance))
        return -round(wrong, ROUNDING_DIGITS), -round(variance, ROUNDING_DIGITS), MemberPair(min(pair), max(pair))

    return sorted(pairs, key=rank)
