"""Which comparisons a group wants, given who is there and what was answered so far. Pure; nothing is remembered.

Law     the plan is made anew from the answers each time, by the rounds in which the strategy gives its pairs: so it is
        the same after a restart, and in each of several servers.
Judges  take turns from pair to pair, and within one where it is asked several times: `judge_idx` counts from the pair's
        own first judge on, and modulo their number it is the place of a judge in the config's list.
Pair    each is asked as often as the config says, with `position_swap` in both orders. It is done when all of that is
        answered; one that failed is never done, so no further round begins, and what is there is what counts.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from paddock.resources_servers.genrm.config import GenrmConfig
from paddock.resources_servers.genrm.records import MemberPair, PairComparison
from paddock.resources_servers.genrm.strategies import next_pairs


class Question(NamedTuple):
    """A comparison, by member numbers, in the order in which the judge sees them."""

    first: int
    second: int
    judge_idx: int


Lookup = Callable[[Question], PairComparison | None]
"""The comparison that answers a question; None: there is none, or none yet."""


class ComparisonPlan(NamedTuple):
    """The pairs that a group compares, and the questions to the judges that this takes."""

    pairs: list[MemberPair]
    questions: list[Question]
    """Of all pairs, answered or not; each once."""


def plan_comparisons(
    config: GenrmConfig, present: Sequence[int], size: int, *, complete: bool, answered: Lookup
) -> ComparisonPlan:
    """Plan the comparisons of a group of `size` members; `complete`: no further member will come."""
    members = sorted(present)
    by_pair: dict[MemberPair, list[PairComparison]] = {}
    while True:
        done = [comparison for comparisons in by_pair.values() for comparison in comparisons]
        budget = config.comparison_budget
        new = next_pairs(config.comparison_strategy, members, size, complete, done, set(by_pair), budget)
        if not new:
            break
        by_pair.update((pair, _comparisons_of(config, pair, answered)) for pair in new)
    return ComparisonPlan(list(by_pair), questions_of(config, list(by_pair)))


def pairs_of_late(
    config: GenrmConfig, settled: Sequence[MemberPair], present: Sequence[int], size: int, late: int
) -> list[MemberPair]:
    """Return the pairs of a member that came when its group was settled: those that its number had there, else those
    that the strategy begins with."""
    touching = [pair for pair in settled if late in pair]
    if touching:
        return touching
    members = sorted({*present, late})
    budget = config.comparison_budget
    first_pairs = next_pairs(config.comparison_strategy, members, size, True, [], set(), budget)  # noqa: FBT003
    return [pair for pair in first_pairs if late in pair]


def questions_of(config: GenrmConfig, pairs: Sequence[MemberPair]) -> list[Question]:
    """Return the questions that some pairs need, each once."""
    return list(dict.fromkeys(question for pair in pairs for question in _questions(config, pair)))


def _questions(config: GenrmConfig, pair: MemberPair) -> Iterator[Question]:
    first_judge = _first_judge(pair, len(config.judges))
    for judge_idx in range(first_judge, first_judge + config.num_judges_per_comparison):
        yield Question(pair.first, pair.second, judge_idx)
        if config.position_swap:
            yield Question(pair.second, pair.first, judge_idx)


def _first_judge(pair: MemberPair, judges: int) -> int:
    """The same in both orders of a pair, so that a judge's liking for a position cancels out. Neighbours in the ring,
    and the pairs that one member has among all, go round the judges."""
    return (pair.first + pair.second) // 2 % judges


def _comparisons_of(config: GenrmConfig, pair: MemberPair, answered: Lookup) -> list[PairComparison]:
    comparisons = [answered(question) for question in _questions(config, pair)]
    whole = [comparison for comparison in comparisons if comparison is not None]
    return whole if len(whole) == len(comparisons) else []
