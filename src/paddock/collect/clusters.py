"""Numbers over the paired differences of rows, clustered by repository.

Error  of the mean of n differences d_i in G clusters, with s_g the sum of (d_i - mean) in a cluster:
       SE^2 = G / (G - 1) * sum of s_g^2 / n^2; the interval is t with G - 1 degrees (Miller 2024, arXiv:2411.00640,
       section 2.2; Cameron and Miller 2015, J. Hum. Resour. 50:317-372).
P      two-sided, by flipping the signs of whole clusters: all 2^G ways up to 14 clusters, else 10,000 draws of a fixed
       seed (Canay, Romano and Shaikh 2017, Econometrica 85:1013-1030). Fewer than 6 clusters: None, because the least
       p of 5 is 2/32.
Rows   needed for a difference at 5 % and 80 % power: (z_0.975 + z_0.8)^2 * variance / difference^2, where the variance
       is n * SE^2: so much per row, with repositories of the sizes that were seen.
"""

import random
from collections.abc import Mapping, Sequence
from itertools import product
from math import atan, ceil, cos, fsum, pi, sin, sqrt
from statistics import NormalDist

from paddock.collect.statistics import Interval

Clusters = Mapping[tuple[str, str], Sequence[float]]
"""Differences of rows, by what the rows have in common: its sort and its name."""
LEAST_CLUSTERS = 6
"""With fewer, no outcome has a two-sided p below 5 %."""
_MOST_EXACT = 14
_DRAWS = 10_000
_ROUNDING = 1e-9


def clustered_variance(clusters: Clusters) -> float | None:
    """n * SE^2 of the mean of all n differences; None: there is one cluster, or none."""
    values = [value for cluster in clusters.values() for value in cluster]
    if len(clusters) < 2:
        return None
    mean = fsum(values) / len(values)
    sums = [fsum(value - mean for value in cluster) for cluster in clusters.values()]
    squares = fsum(own * own for own in sums)
    return len(clusters) / (len(clusters) - 1) * squares / len(values)


def clustered_interval95(clusters: Clusters) -> Interval | None:
    """None: there are fewer than two clusters, or all differences are the same."""
    variance = clustered_variance(clusters)
    if variance is None or variance < _ROUNDING**2:
        return None
    values = [value for cluster in clusters.values() for value in cluster]
    mean = fsum(values) / len(values)
    half = t_quantile(len(clusters) - 1) * sqrt(variance / len(values))
    return Interval(max(-1.0, mean - half), min(1.0, mean + half))


def sign_flip_p(clusters: Clusters) -> float | None:
    """The chance of a mean at least as far from 0, when either sign of each cluster is as likely; None: too few."""
    if len(clusters) < LEAST_CLUSTERS:
        return None
    sums = [fsum(clusters[name]) for name in sorted(clusters)]
    least = abs(fsum(sums)) - _ROUNDING
    if len(sums) <= _MOST_EXACT:
        ways = product((1, -1), repeat=len(sums))
        as_far = sum(abs(_flipped(sums, signs)) >= least for signs in ways)
        return as_far / (1 << len(sums))
    draw = random.Random(0)
    as_far = sum(abs(_flipped(sums, draw.choices((1, -1), k=len(sums)))) >= least for _ in range(_DRAWS))
    return (as_far + 1) / (_DRAWS + 1)


def rows_needed(variance: float, difference: float) -> int | None:
    """Rows that show `difference` at 5 % with 80 % power; None: there is no difference to show."""
    if abs(difference) < _ROUNDING:
        return None
    normal = NormalDist()
    return ceil((normal.inv_cdf(0.975) + normal.inv_cdf(0.8)) ** 2 * variance / difference**2)


def t_quantile(degrees: int) -> float:
    """The 97.5 % quantile of Student's t."""
    low, high = 0.0, 16.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_within(middle, degrees) < 0.95 else (low, middle)
    return (low + high) / 2


def _flipped(sums: Sequence[float], signs: Sequence[int]) -> float:
    return sum(value * sign for value, sign in zip(sums, signs, strict=True))


def _t_within(t: float, degrees: int) -> float:
    """The chance that |T| <= t (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    angle = atan(t / sqrt(degrees))
    odd = degrees % 2
    term = cos(angle) if odd else 1.0
    total = 0.0
    for k in range(2 + odd, degrees + 1, 2):
        total += term
        term *= cos(angle) ** 2 * (k - 1) / k
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total
