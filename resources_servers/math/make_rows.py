"""Rows with problems of our own, made by seed, as JSON lines.

python -m paddock.resources_servers.math.make_rows --count N --seed S
"""

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from paddock.collect.row_command import print_rows
from paddock.types import JsonObject

INSTRUCTION = "Solve the problem. Put the final answer, and nothing else, into \\boxed{}."


class MathProblem(NamedTuple):
    """A problem and its answer, both with LaTeX."""

    question: str
    answer: str


def _fraction(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return f"{sign}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def _sum(draw: random.Random) -> MathProblem:
    a, b, c = (draw.randint(11, 99) for _ in range(3))
    return MathProblem(f"Compute ${a} \\cdot {b} - {c}$.", str(a * b - c))


def _linear(draw: random.Random) -> MathProblem:
    a, b, c = draw.randint(2, 9), draw.randint(-20, 20), draw.randint(-40, 40)
    question = f"Solve ${a}x {'+' if b >= 0 else '-'} {abs(b)} = {c}$ for $x$."
    return MathProblem(question, _fraction(Fraction(c - b, a)))


def _fractions(draw: random.Random) -> MathProblem:
    left, right = (Fraction(draw.randint(1, 9), draw.randint(2, 12)) for _ in range(2))
    question = f"Write ${_fraction(left)} + {_fraction(right)}$ as a single fraction in lowest terms, or as an integer."
    return MathProblem(question, _fraction(left + right))


def _roots(draw: random.Random) -> MathProblem:
    low, high = sorted(draw.sample(range(-9, 10), 2))
    b, c = -(low + high), low * high
    question = f"Find all real $x$ with $x^2 {b:+d}x {c:+d} = 0$. Separate several solutions by commas."
    return MathProblem(question, f"{low}, {high}")


def _remainder(draw: random.Random) -> MathProblem:
    base, power, modulus = draw.randint(2, 9), draw.randint(10, 60), draw.randint(5, 30)
    question = f"What is the remainder when ${base}^{{{power}}}$ is divided by ${modulus}$?"
    return MathProblem(question, str(pow(base, power, modulus)))


def _derivative(draw: random.Random) -> MathProblem:
    a, b, n = draw.randint(2, 9), draw.randint(2, 9), draw.randint(3, 6)
    return MathProblem(
        f"What is the derivative of ${a}x^{n} + {b}x$ with respect to $x$?", f"{a * n}x^{{{n - 1}}} + {b}"
    )


def _inequality(draw: random.Random) -> MathProblem:
    low = draw.randint(-9, 5)
    high = low + draw.randint(1, 9)
    middle, radius = Fraction(low + high, 2), Fraction(high - low, 2)
    question = (
        f"Give all real $x$ with $\\left|x - ({_fraction(middle)})\\right| \\le {_fraction(radius)}$ as an interval."
    )
    return MathProblem(question, f"[{low}, {high}]")


def _circle(draw: random.Random) -> MathProblem:
    radius = draw.randint(2, 30)
    return MathProblem(f"A circle has the diameter ${2 * radius}$. What is its area?", f"{radius * radius}\\pi")


def _draws(draw: random.Random) -> MathProblem:
    red, blue = draw.randint(2, 8), draw.randint(2, 8)
    bag = f"A bag holds {red} red and {blue} blue balls."
    question = f"{bag} Two are drawn at once. What is the probability that both are red?"
    return MathProblem(question, _fraction(Fraction(math.comb(red, 2), math.comb(red + blue, 2))))


def _hypotenuse(draw: random.Random) -> MathProblem:
    square = draw.choice([2, 3, 5, 6, 10])
    a = draw.randint(2, 9)
    question = f"A rectangle has the sides ${a}$ and ${a}\\sqrt{{{square}}}$. How long is its diagonal?"
    whole = math.isqrt(1 + square)
    root = str(a * whole) if whole * whole == 1 + square else f"{a}\\sqrt{{{1 + square}}}"
    return MathProblem(question, root)


KINDS: tuple[Callable[[random.Random], MathProblem], ...] = (
    _sum,
    _linear,
    _fractions,
    _roots,
    _remainder,
    _derivative,
    _inequality,
    _circle,
    _draws,
    _hypotenuse,
)


def make_row(seed: int, number: int) -> JsonObject:
    """The row of one number: kinds come in turn."""
    problem = KINDS[number % len(KINDS)](random.Random(f"{seed}/{number}"))
    prompt = f"{INSTRUCTION}\n\n{problem.question}"
    return {
        "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
        "question": problem.question,
        "expected_answer": problem.answer,
    }


def make_rows(count: int, seed: int) -> list[JsonObject]:
    return [make_row(seed, number) for number in range(count)]


if __name__ == "__main__":
    print_rows(__doc__, make_rows, count=len(KINDS))
