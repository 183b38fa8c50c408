"""Numbers over the rewards of groups.

Interval  mean +- 1.96 standard errors, clustered by row: with N rewards r in G rows and mean m,
          SE = sqrt(G / (G - 1) * sum over rows of (sum over its members of (r - m))^2) / N.
Source    Miller 2024, "Adding Error Bars to Evals", arXiv:2411.00640, section 2.2, with the G / (G - 1) correction of
          few clusters; for rows of equal size it is the normal interval over row means.
Passed    the share of passing rollouts, a mean over rows, with Wilson's score interval at the effective sample size:
          with row shares p_i and their mean p, n = p (1 - p) / (sum over rows of (p_i - p)^2 / G^2), at most N; n = G
          where p is 0 or 1. With one rollout per row it is Wilson's own interval of n = G.
Source    Wilson 1927, J. Am. Stat. Assoc. 22:209-212; the effective size as in Korn and Graubard 1998, Surv. Methodol.
          24:193-201.
Law       below two rows there is no interval: None, not zero width.
"""

from collections.abc import Iterable, Sequence
from math import sqrt
from typing import NamedTuple

from paddock.server.metrics import pass_at_k

Z95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""
PASSED = 1.0
"""A rollout passes when its reward is this or more; where steps are rewarded too, the environment's own."""


class RowScore(NamedTuple):
    """The rewards of one row's rollouts, summed."""

    n: int = 0
    total: float = 0.0
    passed: int = 0

    def plus(self, reward: float, *, outcome: float | None = None) -> "RowScore":
        """`outcome`: what the rollout passes by; None: its reward."""
        passes = (reward if outcome is None else outcome) >= PASSED
        return RowScore(self.n + 1, self.total + reward, self.passed + passes)

    def and_(self, other: "RowScore") -> "RowScore":
        return RowScore(self.n + other.n, self.total + other.total, self.passed + other.passed)

    @property
    def share(self) -> float:
        """Of its rollouts that pass; there must be one."""
        return self.passed / self.n


class Interval(NamedTuple):
    low: float
    high: float


class Rate(NamedTuple):
    """The share of rollouts that pass, as a mean over rows."""

    value: float
    ci95: Interval | None


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


def pass_rate(scores: Iterable[RowScore]) -> Rate | None:
    """None: there is no rollout with a reward."""
    rows = [score for score in scores if score.n]
    if not rows:
        return None
    shares = [score.share for score in rows]
    centre = sum(shares) / len(shares)
    n = effective_size(shares, sum(score.n for score in rows))
    return Rate(centre, wilson95(centre, n) if len(rows) >= 2 else None)


def effective_size(shares: Sequence[float], most: int) -> float:
    """How many independent rollouts say as much about the mean of these row shares; `most`: how many there were."""
    centre = sum(shares) / len(shares)
    squares = sum((share - centre) ** 2 for share in shares) / len(shares)
    if centre * (1 - centre) <= 0:
        return len(shares)
    return min(most, centre * (1 - centre) * len(shares) / squares) if squares > 0 else most


def wilson95(share: float, n: float) -> Interval:
    """Wilson's score interval of a share of n."""
    z2 = Z95 * Z95
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return Interval(max(0.0, middle - half), min(1.0, middle + half))
