"""The few operations that the loss needs of an array library: torch where it trains, plain lists where it is tested.

Shapes  all arrays are flat, one entry per trained token of a micro-batch, or one per row of it; scalars are arrays
        without an axis. Truth is 1.0 or 0.0. Which tokens belong to which row is an array of row indices, so that rows
        may lie padded, packed or in any order.
Law     every operation but `detach` and `within` lets gradients through as its library does; an array without entries
        is allowed everywhere but in `smallest` and `largest`.
"""

from typing import Protocol, Self, TypeVar


class Array(Protocol):
    """Elementwise arithmetic."""

    def __add__(self, other: Self | float, /) -> Self: ...

    def __sub__(self, other: Self | float, /) -> Self: ...

    def __mul__(self, other: Self | float, /) -> Self: ...

    def __truediv__(self, other: Self | float, /) -> Self: ...

    def __neg__(self) -> Self: ...


A = TypeVar("A", bound=Array)


class Arrays(Protocol[A]):
    """The operations of one array library."""

    def exp(self, x: A) -> A: ...

    def absolute(self, x: A) -> A: ...

    def clamp(self, x: A, low: float | None, high: float | None) -> A:
        """`x` between the bounds; None: there is no such bound."""
        ...

    def maximum(self, x: A, y: A) -> A: ...

    def minimum(self, x: A, y: A) -> A: ...

    def where(self, condition: A, x: A, y: A) -> A:
        """`x` where the condition is 1, `y` where it is 0, whatever the other is there."""
        ...

    def within(self, x: A, low: float | None, high: float | None) -> A:
        """1 where `low <= x <= high`, else 0, also for NaN. No gradient."""
        ...

    def finite(self, x: A) -> A:
        """`x` with 0 in place of infinities and NaN."""
        ...

    def detach(self, x: A) -> A:
        """The values, without gradient."""
        ...

    def full(self, like: A, value: float) -> A: ...

    def total(self, x: A) -> A:
        """The sum of all entries, a scalar; 0 for no entries."""
        ...

    def row_totals(self, x: A, rows: A, n_rows: int) -> A:
        """The sum of `x` `[tokens]` over each row, `[n_rows]`; `rows` `[tokens]`: row indices. 0 for an empty row."""
        ...

    def of_rows(self, values: A, rows: A) -> A:
        """For each token the entry of `values` `[n_rows]` of its row, `[tokens]`; `rows` `[tokens]` are row indices."""
        ...

    def size(self, x: A) -> int: ...

    def number(self, x: A) -> float:
        """The value of a scalar."""
        ...

    def smallest(self, x: A) -> float: ...

    def largest(self, x: A) -> float: ...
