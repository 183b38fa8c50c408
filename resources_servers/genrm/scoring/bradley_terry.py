"""Strengths of members from comparisons: the likeliest ones under the model of Bradley and Terry, with a prior.

Model   the first wins with chance sigmoid(s_first - s_second). What a comparison says is a share of a win for the
        first: (6 - ranking) / 5; where the answer has no ranking, 1/2 + (score_1 - score_2) / 8.
Prior   each strength is normal around 0 with precision `PRIOR_PRECISION` (a comparison of equals has 0.25): so there is
        one finite answer for any comparisons, of mean 0, which does not depend on their order or on the numbering.
Scores  1 + 4 sigmoid(s): monotone, within 1 to 5, 3 for who is average.
Source  Bradley and Terry 1952, Biometrika 39; found by Newton's method with halved steps, which ends at `MAX_STEPS`.
"""

import math
from collections.abc import Iterable, Sequence
from operator import mul
from typing import NamedTuple

from paddock.resources_servers.genrm.records import (
    HIGHEST_RANKING,
    HIGHEST_SCORE,
    LOWEST_RANKING,
    LOWEST_SCORE,
    PairComparison,
)

PRIOR_PRECISION = 0.1
MAX_STEPS = 100
SMALLEST_STEP = 1e-13
"""Logits."""
ROUNDING = 1e-12
"""Of a loss, relative: a step that seems to raise it by less is no worse."""

Matrix = list[list[float]]


class Pairing(NamedTuple):
    """All comparisons of two members, by their indices in a fit."""

    first: int
    second: int
    share: float
    """Wins of `first`."""
    total: float


class Fit(NamedTuple):
    """Members and their likeliest strengths, by index."""

    members: list[int]
    strengths: list[float]
    """Logits."""
    pairings: list[Pairing]

    def covariance(self) -> Matrix:
        """Return the covariance of the strengths, (members, members), by the curvature at their likeliest values."""
        factor = _cholesky(_curvature(self.pairings, self.strengths))
        size = len(self.members)
        return [_solve(factor, [float(row == column) for column in range(size)]) for row in range(size)]


def scores(members: Sequence[int], comparisons: Sequence[PairComparison]) -> dict[int, float]:
    """Score each of `members` between 1 and 5; others that comparisons touch take part in the fit."""
    fit = fit_strengths(members, comparisons)
    span = HIGHEST_SCORE - LOWEST_SCORE
    by_member = {member: LOWEST_SCORE + span * sigmoid(s) for member, s in zip(fit.members, fit.strengths, strict=True)}
    return {member: by_member[member] for member in members}


def fit_strengths(members: Iterable[int], comparisons: Sequence[PairComparison]) -> Fit:
    """Fit the strengths of members; the same to the last bit for any order of `comparisons`."""
    touched = {member for comparison in comparisons for member in (comparison.response_i, comparison.response_j)}
    everyone = sorted(touched.union(members))
    pairings = _pairings(everyone, comparisons)
    strengths = [0.0] * len(everyone)
    loss = _loss(pairings, strengths)
    for _ in range(MAX_STEPS):
        step = _solve(_cholesky(_curvature(pairings, strengths)), _slope(pairings, strengths))
        while True:
            trial = [s - d for s, d in zip(strengths, step, strict=True)]
            trial_loss = _loss(pairings, trial)
            small = max(map(abs, step), default=0.0) < SMALLEST_STEP
            if small or trial_loss <= loss + ROUNDING * (1.0 + abs(loss)):
                break
            step = [d / 2 for d in step]
        strengths, loss = trial, trial_loss
        if small:
            break
    return Fit(everyone, strengths, pairings)


def share_of_first(comparison: PairComparison) -> float:
    """Return the first's share of the win, between 0 and 1; 1/2: neither is better."""
    if "ranking" not in comparison.missing:
        return (HIGHEST_RANKING - comparison.ranking) / (HIGHEST_RANKING - LOWEST_RANKING)
    return 0.5 + (comparison.score_1 - comparison.score_2) / (2 * (HIGHEST_SCORE - LOWEST_SCORE))


def sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value)) if value >= 0 else math.exp(value) / (1.0 + math.exp(value))


def _pairings(members: Sequence[int], comparisons: Sequence[PairComparison]) -> list[Pairing]:
    rank = {member: index for index, member in enumerate(members)}
    shares: dict[tuple[int, int], list[float]] = {}
    for comparison in comparisons:
        first, second, share = rank[comparison.response_i], rank[comparison.response_j], share_of_first(comparison)
        if first > second:
            first, second, share = second, first, 1.0 - share
        shares.setdefault((first, second), []).append(share)
    return [Pairing(*pair, math.fsum(wins), float(len(wins))) for pair, wins in sorted(shares.items())]


def _loss(pairings: Sequence[Pairing], strengths: Sequence[float]) -> float:
    """Negative logarithm of likelihood and prior, up to a constant."""
    terms = (
        pairing.total * _softplus(gap) - pairing.share * gap
        for pairing in pairings
        for gap in [strengths[pairing.first] - strengths[pairing.second]]
    )
    return math.fsum(terms) + PRIOR_PRECISION / 2 * math.fsum(s * s for s in strengths)


def _slope(pairings: Sequence[Pairing], strengths: Sequence[float]) -> list[float]:
    slope = [PRIOR_PRECISION * s for s in strengths]
    for first, second, share, total in pairings:
        excess = total * sigmoid(strengths[first] - strengths[second]) - share
        slope[first] += excess
        slope[second] -= excess
    return slope


def _curvature(pairings: Sequence[Pairing], strengths: Sequence[float]) -> Matrix:
    size = len(strengths)
    matrix = [[PRIOR_PRECISION if row == column else 0.0 for column in range(size)] for row in range(size)]
    for first, second, _, total in pairings:
        chance = sigmoid(strengths[first] - strengths[second])
        weight = total * chance * (1.0 - chance)
        matrix[first][first] += weight
        matrix[second][second] += weight
        matrix[first][second] -= weight
        matrix[second][first] -= weight
    return matrix


def _cholesky(matrix: Matrix) -> Matrix:
    """Lower factor of a positive definite matrix, its rows without the zeros."""
    rows: Matrix = []
    for index, full in enumerate(matrix):
        row: list[float] = []
        for column in range(index):
            done = rows[column]
            row.append((full[column] - sum(map(mul, row, done))) / done[column])
        row.append(math.sqrt(full[index] - sum(map(mul, row, row))))
        rows.append(row)
    return rows


def _solve(factor: Matrix, right: Sequence[float]) -> list[float]:
    """Solve `factor @ factor.T @ x = right`; `right` has one value per row of `factor`."""
    solution: list[float] = []
    for row, value in zip(factor, right, strict=True):
        solution.append((value - sum(map(mul, row, solution))) / row[-1])
    for index in range(len(factor) - 1, -1, -1):
        solution[index] /= factor[index][index]
        for column, weight in enumerate(factor[index][:index]):
            solution[column] -= weight * solution[index]
    return solution


def _softplus(value: float) -> float:
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))
