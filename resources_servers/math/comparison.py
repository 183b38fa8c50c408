"""Compares two answers by math-verify; loaded by path in checking processes, so it imports nothing of the package.

Request `[expected, answer]`, both LaTeX without delimiters. Reply `{"equal", "read", "costly"}`: whether they are
        equal, whether the answer could be read as mathematics, what of it would have cost too much ("": nothing).
Rules   math-verify's: LaTeX extraction of `\\boxed{...}`, six decimals, percentages equal to their number and to their
        fraction. Its own time limits are off: they are signals, and the process has a better one.
Bound   an integer power of more than MAX_POWER_BITS is not computed.
"""

import logging
import math
from functools import lru_cache
from typing import Any

from math_verify import LatexExtractionConfig, parse, verify
from sympy.core.numbers import Integer

MAX_POWER_BITS = 1 << 20
_LATEX = (LatexExtractionConfig(),)
_EXAMPLES = (
    ("\\frac{1}{2}", "0.5"),
    ("(x+1)^2", "x^2+2x+1"),
    ("\\{1,2\\}", "2, 1"),
    ("[1,2)", "1 \\le x < 2"),
    ("\\sqrt{8}", "2\\sqrt{2}"),
    ("50\\%", "\\frac12"),
    ("x=3", "y=4"),
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "(1,3)"),
    ("\\sin x", "\\cos x"),
)
"""What is used for the first time takes a hundred times as long; forks have it behind them."""


class _TooCostly(BaseException):
    """Past the library, which goes on after any Exception."""


def warm() -> None:
    """Do what the first checks would do."""
    logging.disable(logging.CRITICAL)
    _bound_powers()
    for expected, answer in _EXAMPLES:
        check([expected, answer])


def check(request: list[str]) -> dict[str, Any]:
    """Compare an answer with what is expected."""
    expected, answer = request
    try:
        parsed = _parse(answer)
        equal = bool(verify(_parse(expected), parsed, timeout_seconds=None))
    except _TooCostly:
        return {"equal": False, "read": True, "costly": "a power of too many digits"}
    except MemoryError:
        return {"equal": False, "read": True, "costly": "memory"}
    except RecursionError:
        return {"equal": False, "read": True, "costly": "depth"}
    return {"equal": equal, "read": any(not isinstance(item, str) for item in parsed), "costly": ""}


@lru_cache(maxsize=256)
def _parse(text: str) -> list[Any]:
    return list(parse(f"\\boxed{{{text}}}", _LATEX, extraction_mode="first_match", parsing_timeout=None))


def _bits(base: int, exponent: int) -> float:
    return math.log2(abs(base)) * min(abs(exponent), 1 << 60) if base else 0.0


def _bound_powers() -> None:
    power = Integer._eval_power

    def bounded(base: Any, exponent: Any) -> Any:
        if isinstance(exponent, Integer) and _bits(base.p, exponent.p) > MAX_POWER_BITS:
            raise _TooCostly
        return power(base, exponent)

    Integer._eval_power = bounded
