"""Pairs of actions that the comparator can't decide: one expected call, one that came, of the same kind and target."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from paddock.resources_servers.pivot.semantic.calls import Sides, read_sides
from paddock.resources_servers.pivot.semantic.compare import MAX_STEPS
from paddock.resources_servers.pivot.semantic.ladder import nearness
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.pairs import compare_pair
from paddock.resources_servers.pivot.semantic.surplus import is_destructive
from paddock.resources_servers.pivot.task import ExpectedAction
from paddock.shell import BudgetError, StepBudget, limited, memo
from paddock.tools import Action
from paddock.types import JsonObject


class UndecidedPair(NamedTuple):
    """Two actions that may do the same."""

    expected: Action
    actual: Action


def undecided_pair(
    expected: ExpectedAction,
    response: object,
    params: JsonObject,
    options: SemanticOptions,
    row_task: Mapping[str, Any],
) -> UndecidedPair | None:
    """Return the pair of a response that `compare` takes for a mismatch, where it is undecided; else None."""
    try:
        with memo(), limited(StepBudget(MAX_STEPS)):
            return _undecided(read_sides(expected, response, params, options, row_task))
    except BudgetError:
        return None


def _undecided(sides: Sides) -> UndecidedPair | None:
    ours, theirs, surroundings = sides
    if len(ours) != 1 or len(theirs) != 1:
        return None
    (own,), (other,) = ours, theirs
    if own.action is None or other.action is None:
        return None
    result = compare_pair(own.action, other.action, *surroundings)
    if result.same or result.reason == "limit_differs":
        return None
    if is_destructive(other.action, surroundings.options):
        return None
    near = nearness(own.action, other.action, result.reason, surroundings)
    return UndecidedPair(own.action, other.action) if near.undecided else None
