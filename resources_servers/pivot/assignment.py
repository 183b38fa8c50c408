"""Assignments of expected calls to actual calls, each at most once, whatever their order.

Shapes  `maximum_matching` takes, per expected call, the actual calls it could match, and gives actual -> expected.
        `best_assignment` takes a table of scores >= 0, expected x actual, and gives per expected call its actual.
Cost    O(expected x pairs) and O(n^2 m); no recursion, so a long batch cannot exhaust the stack.
"""

from collections.abc import Sequence


def maximum_matching(candidates: Sequence[Sequence[int]]) -> dict[int, int]:
    """Make as many pairs as possible (Kuhn's algorithm); expected calls with the fewest candidates go first.

    `candidates[i]` are the actual calls that expected call i may have; returns actual -> expected.
    """
    owner: dict[int, int] = {}
    for start in sorted(range(len(candidates)), key=lambda index: len(candidates[index])):
        _augment(start, candidates, owner)
    return owner


def _augment(start: int, candidates: Sequence[Sequence[int]], owner: dict[int, int]) -> None:
    """Place `start` along one alternating path, moving others where that frees a place; else change nothing."""
    visited: set[int] = set()
    path = [(start, iter(candidates[start]))]
    taken: list[int] = []
    while path:
        for actual in path[-1][1]:
            if actual in visited:
                continue
            visited.add(actual)
            taken.append(actual)
            if actual not in owner:
                for (expected, _), slot in zip(path, taken, strict=True):
                    owner[slot] = expected
                return
            path.append((owner[actual], iter(candidates[owner[actual]])))
            break
        else:
            path.pop()
            if taken:
                taken.pop()


def best_assignment(scores: Sequence[Sequence[float]]) -> list[int | None]:
    """Find the pairing with the greatest total score (Hungarian algorithm with potentials).

    `scores` is (expected, actual); returns per expected call its actual, None where it has none.
    """
    if not scores or not scores[0]:
        return [None] * len(scores)
    rows, columns = len(scores), len(scores[0])
    if rows > columns:
        flipped = best_assignment([[scores[row][column] for row in range(rows)] for column in range(columns)])
        partner: list[int | None] = [None] * rows
        for column, row in enumerate(flipped):
            if row is not None:
                partner[row] = column
        return partner
    owner = _assign([[-score for score in line] for line in scores], rows, columns)
    result: list[int | None] = [None] * rows
    for column in range(1, columns + 1):
        if owner[column]:
            result[owner[column] - 1] = column - 1
    return result


def _assign(costs: list[list[float]], rows: int, columns: int) -> list[int]:
    """Assign every row at least cost; `costs` is (rows, columns), rows <= columns.

    Returns the 1-based owner row per 1-based column, 0 for none.
    """
    row_potential, column_potential = [0.0] * (rows + 1), [0.0] * (columns + 1)
    owner = [0] * (columns + 1)
    for row in range(1, rows + 1):
        owner[0] = row
        here = 0
        slack, came_from, done = [float("inf")] * (columns + 1), [0] * (columns + 1), [False] * (columns + 1)
        while owner[here]:
            done[here] = True
            current, step, following = owner[here], float("inf"), 0
            for column in range(1, columns + 1):
                if done[column]:
                    continue
                reduced = costs[current - 1][column - 1] - row_potential[current] - column_potential[column]
                if reduced < slack[column]:
                    slack[column], came_from[column] = reduced, here
                if slack[column] < step:
                    step, following = slack[column], column
            for column in range(columns + 1):
                if done[column]:
                    row_potential[owner[column]] += step
                    column_potential[column] -= step
                else:
                    slack[column] -= step
            here = following
        while here:
            owner[here] = owner[came_from[here]]
            here = came_from[here]
    return owner
