"""Numbers as they are written: exact values of plain ones, and answers that name a calculation in a number's place.

Plain   an integer (with commas by thousands), a decimal, a fraction of integers (`a/b`, `\\frac{a}{b}`, `\\frac12`).
Law     where the expected answer is a plain number, one that still has to be added, multiplied, divided or run through
        a function is the question in other words. A power, root or factorial may be how one writes a number; where
        the question has it too, it is not.
"""

import re
from fractions import Fraction

from paddock.resources_servers.math.answers import is_balanced

_INTEGER = r"\d+|[1-9]\d{0,2}(?:,\d{3})+"
_PLAIN = re.compile(
    rf"(?P<sign>[+-]?)\s*(?:(?P<whole>{_INTEGER})(?:\.(?P<digits>\d+))?|\.(?P<only>\d+)"
    r"|(?P<a>\d+)\s*/\s*(?P<b>\d+)"
    r"|\\[dt]?frac\s*\{\s*(?P<c>[+-]?\d+)\s*\}\s*\{\s*(?P<d>\d+)\s*\}|\\[dt]?frac\s*(?P<e>\d)\s*(?P<f>\d))"
)
_UNIT = re.compile(
    r"\\(?:text|mathrm|textrm|mbox|operatorname)\s*\{[^{}]*\}(?:\s*\^\s*\{?-?\d+\}?)?|\\?%|\^\s*\{?\\circ\}?"
)
_NAME = re.compile(r"^[A-Za-z](?:_\{?\w+\}?)?(?:\([a-z]\))?\s*(?:=|\\approx)\s*")
_SCIENTIFIC = re.compile(r"\\(?:times|cdot)\s*10\s*\^\s*(?:\{\s*-?\d+\s*\}|\d)|\*\s*10\s*\^\s*(?:\{\s*-?\d+\s*\}|\d)")
_SIGN_OF_GROUP = re.compile(r"(?<=[{(])\s*[+-]|^\s*[+-]")
_CALCULATION = re.compile(
    r"[+\-*|]|\\(?:times|cdot|div|pm|mp|max|min|sum|prod|int|gcd|lcm|log|ln|exp|sin|cos|tan|lfloor|lceil|lvert|operatorname"
    r"|bmod|pmod|mod|circ)(?![A-Za-z])|mod\b|\)\s*\(|\d\s*\(|\)\s*\d"
)
_QUOTIENT = re.compile(r"/|\\[dt]?frac|:")
_NOTATION = re.compile(r"\^|!|\\sqrt|\\binom")
_MAX_CHARS = 4000
"""Of a plain number: longer ones may be more than the interpreter reads as an integer."""
_LOOKS = re.compile(r"[\s{}$\\]|\*\*")


def value_of(text: str) -> Fraction | None:
    """The exact value of a plain number; None: it is none."""
    match = _PLAIN.fullmatch(text) if len(text) <= _MAX_CHARS else None
    if match is None:
        return None
    sign = -1 if match["sign"] == "-" else 1
    for over, under in (("a", "b"), ("c", "d"), ("e", "f")):
        if match[over] is not None:
            return sign * Fraction(int(match[over]), int(match[under])) if int(match[under]) else None
    whole = (match["whole"] or "0").replace(",", "")
    return sign * Fraction(f"{whole}.{match['digits'] or match['only'] or '0'}")


def equal_numbers(expected: str, answer: str) -> bool | None:
    """Whether two plain numbers are equal; None: only the library can tell. Where it rounds, it is asked."""
    left, right = value_of(expected), value_of(answer)
    if left is None or right is None:
        return None
    if left == right:
        return True
    both_integers = left.denominator == right.denominator == 1 and "." not in expected + answer
    return False if both_integers else None


def is_calculation(expected: str, answer: str, question: str) -> bool:
    """Whether an answer leaves a calculation to its reader where a plain number is expected."""
    value = value_of(expected)
    if value is None or value_of(answer) == value:
        return value is not None and value.denominator == 1 and _QUOTIENT.search(answer) is not None
    bare = _SCIENTIFIC.sub("", _UNIT.sub("", _NAME.sub("", answer)))
    result = bare.rpartition("=")[2].strip()
    bare = result if is_balanced(result) else bare  # the sign may be a sum's
    if _CALCULATION.search(_SIGN_OF_GROUP.sub("", bare)):
        return True
    if value.denominator == 1 and _QUOTIENT.search(bare):
        return True
    return _NOTATION.search(bare) is not None and _LOOKS.sub("", bare) in _LOOKS.sub("", question)
