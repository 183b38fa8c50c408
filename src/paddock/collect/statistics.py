"""Numbers over the rewards of groups.

Interval  mean +- 1.96 standard errors, clustered by row: with N rewards r in G rows and mean m,
          SE = sqrt(G / (G - 1) * sum over rows of (sum over its members of (r - m))^2) / N.
Source    Miller 2024, "Adding Error Bars to Evals", arXiv:2411.00640, section 2.2, with the G / (G - 1) correction of
          few clusters; for rows of equal size it is the normal interval over row means.
Law       below two rows there is no interval: None, not zero width.
"""

from collections.abc import Iterable
from math import sqrt
from typing import NamedTuple

from paddock.server.metrics import pass_at_k

Z95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""
PASSED = 1.0
"""A rollout passes when its reward is this or more."""


class RowScore(NamedTuple):
    """The rewards of one row's rollouts, summed."""

    n: int = 0
    total: float = 0.0
    passed: int = 0

    def plus(self, reward: float) -> "RowScore":
        return RowScore(self.n + 1, self.total + reward, self.passed + (reward >= PASSED))


class Interval(NamedTuple):
    low: float
    high: float


def mean(scores: Iterable[RowScore]) -> float | None:
    """Mean reward over rollouts; None: there is none."""
    listed = list(scores)
    n = sum(score.n for score in listed)
    return sum(score.total for score in listed) / n if n else None


def interval95(scores: Iterable[RowScore]) -> Interval | None:
    rows = [score for score in scores if score.n]
    centre = mean(rows)
    if centre is None or len(rows) < 2:
        return None
    squares = sum((score.total - score.n * centre) ** 2 for score in rows)
    error = sqrt(len(rows) / (len(rows) - 1) * squares) / sum(score.n for score in rows)
    return Interval(centre - Z95 * error, centre + Z95 * error)


def pass_table(scores: Iterable[RowScore]) -> dict[str, float]:
    """pass@k for k = 1, 2, 4, ... and the largest k, each over the rows that have at least k rewards."""
    rows = [score for score in scores if score.n]
    largest = max((score.n for score in rows), default=0)
    ks = sorted({1 << power for power in range(largest.bit_length())} | {largest}) if largest else []
    table = {}
    for k in ks:
        wide = [pass_at_k(score.n, score.passed, k) for score in rows if score.n >= k]
        table[str(k)] = sum(wide) / len(wide)
    return table
