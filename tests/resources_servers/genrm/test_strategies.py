"""Any order of arrivals and answers ends in the same pairs; the budget goes where the order is uncertain."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.resources_servers.genrm.config import ComparisonStrategy
from paddock.resources_servers.genrm.records import MemberPair, PairComparison
from paddock.resources_servers.genrm.scoring import bradley_terry
from paddock.resources_servers.genrm.strategies import PAIRS_PER_MEMBER, next_pairs

STRATEGIES: tuple[ComparisonStrategy, ...] = get_args(ComparisonStrategy)
SEEDS = 12


def noiseless(strengths: Sequence[float], pair: MemberPair) -> PairComparison:
    """An answer by the members' true strengths alone, on the scale's whole numbers."""
    share = bradley_terry.sigmoid(strengths[pair.first] - strengths[pair.second])
    ranking = float(round(6 - 5 * share))
    return PairComparison(response_i=pair.first, response_j=pair.second, score_1=3, score_2=3, ranking=ranking)


def strengths_of(size: int, seed: int) -> list[float]:
    chance = random.Random(seed)
    return [chance.gauss(0, 1) for _ in range(size)]


def asked_in_all(
    strategy: ComparisonStrategy,
    arrivals: Sequence[int],
    size: int,
    budget: int | None = None,
    *,
    answers: random.Random | None = None,
) -> list[PairComparison]:
    """A whole group: who comes in which order, answers that come one by one in any order; then the roster is closed."""
    strengths, chance = strengths_of(size, seed=size), answers or random.Random(0)
    present: list[int] = []
    asked: set[MemberPair] = set()
    out: list[MemberPair] = []
    done: list[PairComparison] = []
    coming = list(arrivals)
    while True:
        fresh = next_pairs(strategy, present, size, not coming, done, asked, budget)
        assert asked.isdisjoint(fresh)
        assert len(set(fresh)) == len(fresh)
        assert all(pair.first != pair.second and {*pair} <= {*present} for pair in fresh)
        asked.update(fresh)
        out += fresh
        if out and (not coming or chance.random() < 0.5):
            done.append(noiseless(strengths, out.pop(chance.randrange(len(out)))))
        elif coming:
            present.append(coming.pop(0))
        else:
            return done


def pairs_of(done: Sequence[PairComparison]) -> set[MemberPair]:
    return {MemberPair(one.response_i, one.response_j) for one in done}


GROUPS = st.integers(1, 7).flatmap(
    lambda size: st.tuples(st.just(size), st.lists(st.sampled_from(range(size)), unique=True, max_size=size))
)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(GROUPS, st.integers(0, 99), st.none() | st.integers(1, 30))
def test_any_order_of_arrivals_and_answers_ends_in_the_same_pairs(
    strategy: ComparisonStrategy, group: tuple[int, list[int]], seed: int, budget: int | None
) -> None:
    size, arrivals = group
    found = asked_in_all(strategy, arrivals, size, budget, answers=random.Random(seed))
    assert pairs_of(found) == pairs_of(asked_in_all(strategy, sorted(arrivals), size, budget))
    assert len(found) == len(pairs_of(found))


@given(GROUPS)
def test_in_the_ring_everybody_is_once_first_and_once_second(group: tuple[int, list[int]]) -> None:
    size, arrivals = group
    pairs = pairs_of(asked_in_all("circular", arrivals, size))
    once = Counter(arrivals) if len(arrivals) > 1 else Counter()
    assert Counter(pair.first for pair in pairs) == once
    assert Counter(pair.second for pair in pairs) == once
    if len(arrivals) == size > 1:
        assert pairs == {MemberPair(member, (member + 1) % size) for member in range(size)}


def test_pairs_are_asked_for_as_members_come() -> None:
    def asked(strategy: ComparisonStrategy, *present: int, complete: bool = False) -> list[MemberPair]:
        return next_pairs(strategy, present, 4, complete, [], set(), None)

    for strategy in ("circular", "uncertain"):
        assert asked(strategy, 3, 1) == []
        assert asked(strategy, 0, 3) == [MemberPair(3, 0)]
        assert asked(strategy, 3, 1, 0) == [MemberPair(0, 1), MemberPair(3, 0)]
        assert asked(strategy, 3, 1, 0, complete=True) == [MemberPair(0, 1), MemberPair(1, 3), MemberPair(3, 0)]
        assert asked(strategy, 1, 3, complete=True) == [MemberPair(1, 3), MemberPair(3, 1)]
        assert asked(strategy, 2, complete=True) == []
    assert asked("all_pairs", 3, 1) == [MemberPair(1, 3)]
    assert len(asked("all_pairs", 0, 1, 2, 3)) == 6


def test_further_pairs_wait_for_the_ring_and_for_each_other() -> None:
    size, strengths = 8, strengths_of(8, seed=1)
    ring = next_pairs("uncertain", range(size), size, True, [], set(), None)
    done = [noiseless(strengths, pair) for pair in ring]
    assert next_pairs("uncertain", range(size), size, True, done[:-1], set(ring), None) == []
    assert next_pairs("uncertain", range(size), size, False, done, set(ring), None) == []
    first = next_pairs("uncertain", range(size), size, True, done, set(ring), None)
    assert first == next_pairs("uncertain", range(size), size, True, done[::-1], set(ring), None)
    assert 1 < len(first) <= size // 2
    members = [member for pair in first for member in pair]
    assert len(members) == len(set(members))
    assert next_pairs("uncertain", range(size), size, True, done, {*ring, *first}, None) == []


@pytest.mark.parametrize(
    ("budget", "pairs"), [(1, 8), (8, 8), (11, 11), (20, 20), (None, 8 * PAIRS_PER_MEMBER), (1000, 8 * 7)]
)
def test_the_budget_is_spent_and_kept(budget: int | None, pairs: int) -> None:
    """The ring is asked for in any case: a member outside it would have no score; after all orders nothing is left."""
    assert len(asked_in_all("uncertain", range(8), 8, budget)) == pairs


def test_no_pair_is_turned_while_others_were_never_asked() -> None:
    done = asked_in_all("uncertain", range(8), 8, budget=8 * 7 // 2)
    assert len({frozenset(pair) for pair in pairs_of(done)}) == 8 * 7 // 2


def ranked(first: int, second: int, ranking: float) -> PairComparison:
    return noiseless([0.0] * 9, MemberPair(first, second)).model_copy(update={"ranking": ranking})


def further(size: int, done: Sequence[PairComparison], pairs: int) -> list[MemberPair]:
    asked = pairs_of(done)
    return next_pairs("uncertain", range(size), size, True, done, asked, len(asked) + pairs)


def test_the_pair_that_is_nearer_to_even_is_asked_for() -> None:
    """0 is best, 2 is worst, 1 and 3 are alike."""
    done = [ranked(0, 1, 1), ranked(1, 2, 1), ranked(2, 3, 6), ranked(3, 0, 6)]
    assert further(4, done, 1) == [MemberPair(1, 3)]
    assert further(4, done, 2) == [MemberPair(1, 3), MemberPair(0, 2)]


def test_a_narrow_gap_that_is_well_known_is_left_alone() -> None:
    known = [*[ranked(0, 1, 3.2)] * 60, *[ranked(1, 2, 3.2)] * 60]
    done = [*known, ranked(2, 3, 2), ranked(3, 4, 2), ranked(4, 0, 6)]
    strengths = bradley_terry.fit_strengths(range(5), done).strengths
    gaps = {pair: abs(strengths[pair[0]] - strengths[pair[1]]) for pair in [(0, 2), (0, 3), (1, 3), (1, 4), (2, 4)]}
    assert min(gaps, key=gaps.__getitem__) == (0, 2)
    assert not {MemberPair(0, 2), MemberPair(2, 0)} & set(further(5, done, 2))


def test_of_equally_even_pairs_those_are_asked_for_of_whom_least_is_known() -> None:
    """In a ring of ties the likeliest strengths are all 0; who is farthest apart in it is known least of each other."""
    done = [ranked(member, (member + 1) % 8, 3.5) for member in range(8)]
    assert further(8, done, 8) == [MemberPair(0, 4), MemberPair(1, 5), MemberPair(2, 6), MemberPair(3, 7)]


def test_further_pairs_keep_positions_even() -> None:
    for seed in range(SEEDS):
        pairs = pairs_of(judged_pairs("uncertain", strengths_of(16, seed), 3 * 16))
        lead = Counter(pair.first for pair in pairs)
        lead.subtract(pair.second for pair in pairs)
        assert max(map(abs, lead.values())) <= 2


def tau(strengths: Sequence[float], done: Sequence[PairComparison]) -> float:
    """Kendall's, of the order by fitted strengths with the true one."""
    found = bradley_terry.fit_strengths(range(len(strengths)), done).strengths
    pairs = list(combinations(range(len(strengths)), 2))
    agreeing = (math.copysign(1, (strengths[a] - strengths[b]) * (found[a] - found[b])) for a, b in pairs)
    return sum(agreeing) / len(pairs)


def judged_pairs(strategy: ComparisonStrategy, strengths: Sequence[float], budget: int | None) -> list[PairComparison]:
    size = len(strengths)
    done: list[PairComparison] = []
    while fresh := next_pairs(strategy, range(size), size, True, done, pairs_of(done), budget):
        done += [noiseless(strengths, pair) for pair in fresh]
    return done


def test_uncertain_pairs_order_better_than_the_ring_and_than_as_many_chosen_blindly() -> None:
    size, chance = 16, random.Random(5)
    ring, slightly_more, twice, blind = 0.0, 0.0, 0.0, 0.0
    for seed in range(SEEDS):
        strengths = strengths_of(size, seed)
        around = judged_pairs("circular", strengths, None)
        ring += tau(strengths, around) / SEEDS
        slightly_more += tau(strengths, judged_pairs("uncertain", strengths, size * 5 // 4)) / SEEDS
        spent = judged_pairs("uncertain", strengths, 2 * size)
        assert len(spent) == 2 * size
        twice += tau(strengths, spent) / SEEDS
        others = [
            MemberPair(*pair) for pair in combinations(range(size), 2) if not pairs_of(around) & {pair, pair[::-1]}
        ]
        blind += (
            tau(strengths, [*around, *(noiseless(strengths, pair) for pair in chance.sample(others, size))]) / SEEDS
        )
    assert slightly_more > ring + 0.05
    assert twice > blind + 0.02
    assert twice > 0.9
