"""Whether an output is the expected one: decided on the host; what is expected is never in a sandbox.

Text    lines without white space at their ends, after the same of the whole. A line agrees if it is the same text or
        the same numbers, as exact decimals: `1.50` is `1.5`, and `0.3333` is not `0.3333333`.
Value   of a function: the same JSON value, tuples as lists; a number with a fraction within 1e-5 of its size (1e-8 by
        zero).
"""

import json
import math
from decimal import Decimal, InvalidOperation
from typing import Any

_RELATIVE, _ABSOLUTE = 1e-5, 1e-8
_MAX_DIGITS = 4000
"""Of a number that is compared as one: a decimal may name more digits than a memory holds."""


def same_text(expected: str, given: str) -> bool:
    """Compare what a program wrote."""
    left, right = _lines(expected), _lines(given)
    return len(left) == len(right) and all(map(_same_line, left, right))


def same_value(expected: str, given: str) -> bool:
    """Compare what a function returned, both as JSON."""
    try:
        return _same(json.loads(expected), json.loads(given))
    except (ValueError, RecursionError):
        return False


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(expected: str, given: str) -> bool:
    if expected == given:
        return True
    left, right = expected.split(), given.split()
    return len(left) == len(right) and all(map(_same_word, left, right))


def _same_word(expected: str, given: str) -> bool:
    left, right = _decimal(expected), _decimal(given)
    return left is not None and left == right


def _decimal(word: str) -> Decimal | None:
    if len(word) > _MAX_DIGITS:
        return None
    try:
        value = Decimal(word)
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def _same(expected: Any, given: Any) -> bool:
    if isinstance(expected, list):
        return isinstance(given, list) and len(expected) == len(given) and all(map(_same, expected, given))
    if isinstance(expected, dict):
        return (
            isinstance(given, dict)
            and expected.keys() == given.keys()
            and all(_same(value, given[key]) for key, value in expected.items())
        )
    if isinstance(expected, float) or isinstance(given, float):
        numbers = isinstance(expected, int | float) and isinstance(given, int | float)
        return numbers and _same_number(expected, given)
    return bool(expected == given)


def _same_number(expected: float, given: float) -> bool:
    try:
        return math.isclose(expected, given, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE) or (
            math.isnan(expected) and math.isnan(given)
        )
    except OverflowError:  # an integer that is larger than any number with a fraction
        return False
