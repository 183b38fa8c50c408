"""A cache and a budget for the length of one judgement: each text is read once, and no more than a core does soon.

Law     `memo()` begins a judgement, unless one is under way in this context; `once` makes a value for a key at most
        once in it, and anew each time outside of any. `take` counts work against the budget that is in force.
Units   a step is some ten microseconds, wherever it is taken: a node of a command's tree is one and a quarter, a token
        of Python a third.
Errors  those of the maker; nothing is then kept for the key. BudgetError where more steps are taken than are left, and
        at each step after that; never where no budget is in force.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

_T = TypeVar("_T")


class BudgetError(Exception):
    """A judgement would take more steps than it may."""


class StepBudget:
    """Steps that may be taken."""

    def __init__(self, steps: int) -> None:
        self.left = steps


_MEMO: ContextVar[dict[Hashable, Any] | None] = ContextVar("memo", default=None)
_BUDGET: ContextVar[StepBudget | None] = ContextVar("budget", default=None)


@contextmanager
def memo() -> Iterator[None]:
    """Begin a judgement, which ends with the block."""
    if _MEMO.get() is not None:
        yield
        return
    token = _MEMO.set({})
    try:
        yield
    finally:
        _MEMO.reset(token)


@contextmanager
def limited(budget: StepBudget) -> Iterator[None]:
    """Take the steps of a block from this budget, and from no other."""
    token = _BUDGET.set(budget)
    try:
        yield
    finally:
        _BUDGET.reset(token)


def take(steps: int) -> None:
    """Take steps from the budget in force."""
    budget = _BUDGET.get()
    if budget is None:
        return
    budget.left -= steps
    if budget.left < 0:
        raise BudgetError


def under_way() -> bool:
    """Whether a judgement is under way, whose values end with it."""
    return _MEMO.get() is not None


def once(key: Hashable, make: Callable[[], _T]) -> _T:
    """The value of `key`; a key belongs to one maker."""
    values = _MEMO.get()
    if values is None:
        return make()
    if key not in values:
        values[key] = make()
    value: _T = values[key]
    return value
