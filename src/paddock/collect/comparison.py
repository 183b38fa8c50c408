"""Comparison of two arms (ways of working on the same rows), row by row.

Pairs    only rows with a reward under both count; a row's share is that of its passing rollouts.
Interval of the difference of the mean shares: the two Wilson intervals squared and added, with the correlation of the
         row shares (its covariance less 1 / 2n where it is positive). With one rollout per row this is method 10 of
         Newcombe 1998, Stat. Med. 17:2635-2650; with more, Wilson at the effective size (`statistics`). Of many rows it
         is the normal interval of the mean paired difference (Miller 2024, arXiv:2411.00640, section 4.2).
P        two-sided exact sign test over the rows whose shares differ; with one rollout per row, McNemar's exact test.
         No correction for looking at several pairs.
Clusters rows of one repository are alike: where any has several of the common rows, interval and p are of whole
         repositories (`clusters`), and those above are not right. A row of no known repository is its own.
Law      below two common rows, or two repositories, there is no interval: None.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import exp, fsum, lgamma, log, sqrt
from typing import NamedTuple

from paddock.collect.clusters import clustered_interval95, clustered_variance, rows_needed, sign_flip_p
from paddock.collect.statistics import Interval, RowScore, effective_size, wilson95
from paddock.types import JsonObject


class Arm(NamedTuple):
    """One way of working: an agent, or one of its variants."""

    name: str
    environment: str | None
    """Only arms of the same one are compared."""
    rows: Mapping[str, RowScore]
    """Scores by the row's name."""
    repositories: Mapping[str, str] = {}
    """The repositories of rows, by the row's name, where they are known."""


class ArmComparison(NamedTuple):
    """`first` against `second`: positive differences are in favour of `first`."""

    first: str
    second: str
    n_rows: int
    """Rows that have a reward under both."""
    first_rate: float
    second_rate: float
    difference: float
    ci95: Interval | None
    n_first_better: int
    """Rows with a greater share under `first`."""
    n_second_better: int
    p_value: float | None
    """None: there are too few repositories for a test."""
    n_repositories: int
    """Rows of no known repository count as one each."""
    rows_needed: int | None
    """Rows that would show the difference that was seen at 5 % with 80 % power; None: there is none, or no error."""
    rows_needed_3_points: int | None
    """Rows that would show a difference of 0.03."""

    def to_json(self) -> JsonObject:
        return {**self._asdict(), "ci95": list(self.ci95) if self.ci95 else None}


def compare_all(arms: Sequence[Arm]) -> Iterator[ArmComparison]:
    """Each arm against each later one of the same environment, where they share rows."""
    for first, second in combinations(arms, 2):
        if first.environment == second.environment:
            comparison = compare(first, second)
            if comparison is not None:
                yield comparison


def compare(first: Arm, second: Arm) -> ArmComparison | None:
    """The comparison of two arms; None: no row has a reward under both."""
    common = [name for name, score in first.rows.items() if score.n and name in second.rows and second.rows[name].n]
    if not common:
        return None
    sides = [[arm.rows[name] for name in common] for arm in (first, second)]
    ours, theirs = ([score.share for score in side] for side in sides)
    better = sum(our_share > their_share for our_share, their_share in zip(ours, theirs, strict=True))
    worse = sum(our_share < their_share for our_share, their_share in zip(ours, theirs, strict=True))
    rates = sum(ours) / len(common), sum(theirs) / len(common)
    differences = [our_share - their_share for our_share, their_share in zip(ours, theirs, strict=True)]
    clusters = _clusters(first, second, common, differences)
    apart = len(clusters) == len(common)
    sizes = [sum(score.n for score in side) for side in sides]
    variance = clustered_variance(clusters) or None
    return ArmComparison(
        first=first.name,
        second=second.name,
        n_rows=len(common),
        first_rate=rates[0],
        second_rate=rates[1],
        difference=rates[0] - rates[1],
        ci95=_independent_interval95(ours, theirs, sizes) if apart else clustered_interval95(clusters),
        n_first_better=better,
        n_second_better=worse,
        p_value=sign_test(better, worse) if apart else sign_flip_p(clusters),
        n_repositories=len(clusters),
        rows_needed=rows_needed(variance, rates[0] - rates[1]) if variance else None,
        rows_needed_3_points=rows_needed(variance, 0.03) if variance else None,
    )


def sign_test(better: int, worse: int) -> float:
    """Two-sided p-value: the chance of a split at least as uneven, when either side is as likely."""
    n = better + worse
    tail = fsum(
        exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2)) for k in range(min(better, worse) + 1)
    )
    return min(1.0, 2 * tail)


def _clusters(
    first: Arm, second: Arm, common: Sequence[str], differences: Sequence[float]
) -> dict[tuple[str, str], list[float]]:
    """The differences by repository, or by row where that is not known."""
    clusters: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for name, difference in zip(common, differences, strict=True):
        repository = first.repositories.get(name) or second.repositories.get(name)
        clusters[("repository", repository) if repository else ("row", name)].append(difference)
    return clusters


def _independent_interval95(ours: Sequence[float], theirs: Sequence[float], sizes: Sequence[int]) -> Interval | None:
    if len(ours) < 2:
        return None
    p, q = sum(ours) / len(ours), sum(theirs) / len(theirs)
    mine = wilson95(p, effective_size(ours, sizes[0]))
    other = wilson95(q, effective_size(theirs, sizes[1]))
    phi = _correlation(ours, theirs)
    low = _combine_errors(p - mine.low, other.high - q, phi)
    high = _combine_errors(mine.high - p, q - other.low, phi)
    return Interval(max(-1.0, p - q - low), min(1.0, p - q + high))


def _combine_errors(first: float, second: float, phi: float) -> float:
    """The error of a difference, from the errors of its two sides and their correlation `phi`."""
    return sqrt(max(0.0, first * first - 2 * phi * first * second + second * second))


def _correlation(ours: Sequence[float], theirs: Sequence[float]) -> float:
    n = len(ours)
    p, q = sum(ours) / n, sum(theirs) / n
    spread = sum((x - p) ** 2 for x in ours) * sum((y - q) ** 2 for y in theirs)
    if spread <= 0:
        return 0.0
    covariance = sum((x - p) * (y - q) for x, y in zip(ours, theirs, strict=True))
    if covariance > 0:
        covariance = max(0.0, covariance - 0.5)
    return covariance / sqrt(spread)
