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
    Comparison,
)

PRIOR_PRECISION = 0.1
MAX_STEPS = 100
SMALLEST_STEP = 1e-13
"""Logits."""
ROUNDING = 1e-12
"""Of a loss, relative: a step that seems to raise it by less is no worse."""

Matrix = list[list[float]]


class Meeting(NamedTuple):
    """All comparisons of two members, by their places in a fit."""

    one: int
    other: int
    share: float
    """Wins of the one."""
    total: float


class Fit(NamedTuple):
    """Members and what is known of them, by place."""

    members: list[int]
    strengths: list[float]
    """Logits."""
    meetings: list[Meeting]

    def covariance(self) -> Matrix:
        """Of the strengths, by the curvature at their likeliest values."""
        factor = _cholesky(_curvature(self.meetings, self.strengths))
        size = len(self.members)
        return [_solved(factor, [float(row == column) for column in range(size)]) for row in range(size)]


def scores(members: Sequence[int], comparisons: Sequence[Comparison]) -> dict[int, float]:
    """Of each of `members`, between 1 and 5; others that comparisons touch take part in the fit."""
    fit = fitted(members, comparisons)
    span = HIGHEST_SCORE - LOWEST_SCORE
    found = {member: LOWEST_SCORE + span * sigmoid(s) for member, s in zip(fit.members, fit.strengths, strict=True)}
    return {member: found[member] for member in members}


def fitted(members: Iterable[int], comparisons: Sequence[Comparison]) -> Fit:
    """The same to the last bit for any order of `comparisons`."""
    touched = {member for one in comparisons for member in (one.response_i, one.response_j)}
    everyone = sorted(touched.union(members))
    meetings = _meetings(everyone, comparisons)
    strengths = [0.0] * len(everyone)
    loss = _loss(meetings, strengths)
    for _ in range(MAX_STEPS):
        step = _solved(_cholesky(_curvature(meetings, strengths)), _slope(meetings, strengths))
        while True:
            trial = [s - d for s, d in zip(strengths, step, strict=True)]
            reached = _loss(meetings, trial)
            small = max(map(abs, step), default=0.0) < SMALLEST_STEP
            if small or reached <= loss + ROUNDING * (1.0 + abs(loss)):
                break
            step = [d / 2 for d in step]
        strengths, loss = trial, reached
        if small:
            break
    return Fit(everyone, strengths, meetings)


def share_of_first(comparison: Comparison) -> float:
    """Between 0 and 1; 1/2: neither is better."""
    if "ranking" not in comparison.missing:
        return (HIGHEST_RANKING - comparison.ranking) / (HIGHEST_RANKING - LOWEST_RANKING)
    return 0.5 + (comparison.score_1 - comparison.score_2) / (2 * (HIGHEST_SCORE - LOWEST_SCORE))


def sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value)) if value >= 0 else math.exp(value) / (1.0 + math.exp(value))


def _meetings(members: Sequence[int], comparisons: Sequence[Comparison]) -> list[Meeting]:
    place = {member: index for index, member in enumerate(members)}
    shares: dict[tuple[int, int], list[float]] = {}
    for one in comparisons:
        first, second, share = place[one.response_i], place[one.response_j], share_of_first(one)
        if first > second:
            first, second, share = second, first, 1.0 - share
        shares.setdefault((first, second), []).append(share)
    return [Meeting(*pair, math.fsum(found), float(len(found))) for pair, found in sorted(shares.items())]


def _loss(meetings: Sequence[Meeting], strengths: Sequence[float]) -> float:
    """Negative logarithm of likelihood and prior, up to a constant."""
    told = (
        meeting.total * _softplus(gap) - meeting.share * gap
        for meeting in meetings
        for gap in [strengths[meeting.one] - strengths[meeting.other]]
    )
    return math.fsum(told) + PRIOR_PRECISION / 2 * math.fsum(s * s for s in strengths)


def _slope(meetings: Sequence[Meeting], strengths: Sequence[float]) -> list[float]:
    slope = [PRIOR_PRECISION * s for s in strengths]
    for one, other, share, total in meetings:
        excess = total * sigmoid(strengths[one] - strengths[other]) - share
        slope[one] += excess
        slope[other] -= excess
    return slope


def _curvature(meetings: Sequence[Meeting], strengths: Sequence[float]) -> Matrix:
    size = len(strengths)
    matrix = [[PRIOR_PRECISION if row == column else 0.0 for column in range(size)] for row in range(size)]
    for one, other, _, total in meetings:
        chance = sigmoid(strengths[one] - strengths[other])
        weight = total * chance * (1.0 - chance)
        matrix[one][one] += weight
        matrix[other][other] += weight
        matrix[one][other] -= weight
        matrix[other][one] -= weight
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


def _solved(factor: Matrix, right: Sequence[float]) -> list[float]:
    """x of `factor @ factor.T @ x = right`."""
    found: list[float] = []
    for row, value in zip(factor, right, strict=True):
        found.append((value - sum(map(mul, row, found))) / row[-1])
    for index in range(len(factor) - 1, -1, -1):
        found[index] /= factor[index][index]
        for column, weight in enumerate(factor[index][:index]):
            found[column] -= weight * found[index]
    return found


def _softplus(value: float) -> float:
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))
