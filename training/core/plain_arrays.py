"""The loss's operations on plain lists: values without gradients, for tests and for following a figure by hand.

A scalar is a vector of one entry. Lengths have to agree; an overflow is infinite, as in arrays of a library.
"""

import math
from collections.abc import Callable, Iterable


class Vector:
    """A flat array of numbers."""

    def __init__(self, values: Iterable[float]) -> None:
        self.values = list(values)

    def _with(self, other: "Vector | float", operation: Callable[[float, float], float]) -> "Vector":
        if not isinstance(other, Vector):
            return Vector(operation(value, other) for value in self.values)
        return Vector(operation(x, y) for x, y in zip(self.values, other.values, strict=True))

    def __add__(self, other: "Vector | float") -> "Vector":
        return self._with(other, lambda x, y: x + y)

    def __sub__(self, other: "Vector | float") -> "Vector":
        return self._with(other, lambda x, y: x - y)

    def __mul__(self, other: "Vector | float") -> "Vector":
        return self._with(other, lambda x, y: x * y)

    def __truediv__(self, other: "Vector | float") -> "Vector":
        return self._with(other, lambda x, y: x / y)

    def __neg__(self) -> "Vector":
        return Vector(-value for value in self.values)


class PlainArrays:
    """`Arrays` of `Vector`."""

    def exp(self, x: Vector) -> Vector:
        return Vector(map(_exp, x.values))

    def absolute(self, x: Vector) -> Vector:
        return Vector(map(abs, x.values))

    def clamp(self, x: Vector, low: float | None, high: float | None) -> Vector:
        bottom, top = -math.inf if low is None else low, math.inf if high is None else high
        return Vector(min(max(value, bottom), top) for value in x.values)

    def maximum(self, x: Vector, y: Vector) -> Vector:
        return Vector(map(max, x.values, y.values))

    def minimum(self, x: Vector, y: Vector) -> Vector:
        return Vector(map(min, x.values, y.values))

    def where(self, condition: Vector, x: Vector, y: Vector) -> Vector:
        return Vector(a if on else b for on, a, b in zip(condition.values, x.values, y.values, strict=True))

    def within(self, x: Vector, low: float | None, high: float | None) -> Vector:
        bottom, top = -math.inf if low is None else low, math.inf if high is None else high
        return Vector(float(bottom <= value <= top) for value in x.values)

    def finite(self, x: Vector) -> Vector:
        return Vector(value if math.isfinite(value) else 0.0 for value in x.values)

    def detach(self, x: Vector) -> Vector:
        return x

    def full(self, like: Vector, value: float) -> Vector:
        return Vector([value] * len(like.values))

    def total(self, x: Vector) -> Vector:
        return Vector([math.fsum(x.values)])

    def row_totals(self, x: Vector, rows: Vector, n_rows: int) -> Vector:
        totals = [0.0] * n_rows
        for value, row in zip(x.values, rows.values, strict=True):
            totals[int(row)] += value
        return Vector(totals)

    def of_rows(self, values: Vector, rows: Vector) -> Vector:
        return Vector(values.values[int(row)] for row in rows.values)

    def size(self, x: Vector) -> int:
        return len(x.values)

    def number(self, x: Vector) -> float:
        (value,) = x.values
        return value

    def smallest(self, x: Vector) -> float:
        return min(x.values)

    def largest(self, x: Vector) -> float:
        return max(x.values)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
