"""Rows with tasks of our own, made by seed, as JSON lines: a program on stdin and stdout, or a function, by turns.

python -m paddock.resources_servers.code.make_rows --count N --seed S
"""

import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from paddock.collect.row_command import print_rows
from paddock.types import JsonObject

INSTRUCTION = "Solve the task in Python. Put the whole program into one block fenced by ```."
N_TESTS = 8


class CodeProblem(NamedTuple):
    """A task as a function of a few arguments."""

    name: str
    text: str
    """What it does, with the names of its arguments."""
    arguments: tuple[str, ...]
    solution: str
    """Source of the function."""
    draw: Callable[[random.Random], tuple[Any, ...]]


def _numbers(draw: random.Random, low: int, high: int, most: int) -> list[int]:
    return [draw.randint(low, high) for _ in range(draw.randint(1, most))]


def _word(draw: random.Random) -> str:
    return "".join(draw.choice("abcde") for _ in range(draw.randint(1, 20)))


PROBLEMS = (
    CodeProblem(
        "longest_rise",
        "Return the length of the longest run of consecutive elements of `numbers` that rises strictly.",
        ("numbers",),
        "def longest_rise(numbers):\n"
        "    best = run = 1\n"
        "    for before, after in zip(numbers, numbers[1:]):\n"
        "        run = run + 1 if after > before else 1\n"
        "        best = max(best, run)\n"
        "    return best\n",
        lambda draw: (_numbers(draw, -20, 20, 30),),
    ),
    CodeProblem(
        "squeeze",
        "Return `word` with each run of one letter replaced by the letter and the run's length.",
        ("word",),
        "def squeeze(word):\n"
        "    from itertools import groupby\n"
        "    return ''.join(letter + str(len(list(run))) for letter, run in groupby(word))\n",
        lambda draw: (_word(draw),),
    ),
    CodeProblem(
        "ways",
        "Return in how many ways `total` can be paid with coins of the values in `coins`, each as often as one likes; "
        "the order does not matter. Each value counts once, even if it is there twice.",
        ("coins", "total"),
        "def ways(coins, total):\n"
        "    found = [1] + [0] * total\n"
        "    for coin in set(coins):\n"
        "        for amount in range(coin, total + 1):\n"
        "            found[amount] += found[amount - coin]\n"
        "    return found[total]\n",
        lambda draw: (_numbers(draw, 1, 12, 5), draw.randint(0, 60)),
    ),
    CodeProblem(
        "islands",
        "`rows` are texts of equal length of `#` and `.`. Return how many groups of `#` there are, where neighbours "
        "in a row or a column belong together.",
        ("rows",),
        "def islands(rows):\n"
        "    land = {(r, c) for r, row in enumerate(rows) for c, mark in enumerate(row) if mark == '#'}\n"
        "    count = 0\n"
        "    while land:\n"
        "        count += 1\n"
        "        todo = [land.pop()]\n"
        "        while todo:\n"
        "            r, c = todo.pop()\n"
        "            for place in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)):\n"
        "                if place in land:\n"
        "                    land.remove(place)\n"
        "                    todo.append(place)\n"
        "    return count\n",
        lambda draw: (
            ["".join(draw.choice("##...") for _ in range(width)) for _ in range(draw.randint(1, 8))]
            if (width := draw.randint(1, 10))
            else [],
        ),
    ),
    CodeProblem(
        "mean_gap",
        "Return the mean distance of neighbours after `numbers` is sorted, or 0 where there is only one.",
        ("numbers",),
        "def mean_gap(numbers):\n"
        "    return (max(numbers) - min(numbers)) / (len(numbers) - 1) if len(numbers) > 1 else 0\n",
        lambda draw: (_numbers(draw, -50, 50, 12),),
    ),
)


def make_row(seed: int, number: int) -> JsonObject:
    """The row of one number: tasks come in turn, and every second time as functions."""
    problem = PROBLEMS[number % len(PROBLEMS)]
    as_function = number // len(PROBLEMS) % 2 == 1
    draw = random.Random(f"{seed}/{number}")
    names: dict[str, Any] = {}
    exec(problem.solution, names)  # noqa: S102 - source of our own, above
    given = [problem.draw(draw) for _ in range(N_TESTS)]
    tests: JsonObject = {
        "inputs": ["\n".join(map(json.dumps, arguments)) for arguments in given],
        "outputs": [json.dumps(names[problem.name](*arguments)) for arguments in given],
        "fn_name": problem.name if as_function else None,
    }
    if as_function:
        form = f"Write a function `{problem.name}({', '.join(problem.arguments)})`."
        solution = problem.solution
    else:
        what = "`, then `".join(problem.arguments)
        form = f"Read `{what}` from stdin, each as JSON in a line of its own, and write the result as JSON to stdout."
        call = f"{problem.name}({', '.join('json.loads(input())' for _ in problem.arguments)})"
        solution = f"import json\n\n{problem.solution}\nprint(json.dumps({call}))\n"
    prompt = f"{INSTRUCTION}\n\n{problem.text} {form}"
    return {
        "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
        "verifier_metadata": {"unit_tests": tests},
        "solution": solution,
    }


def make_rows(count: int, seed: int) -> list[JsonObject]:
    return [make_row(seed, number) for number in range(count)]


if __name__ == "__main__":
    print_rows(__doc__, make_rows, count=2 * len(PROBLEMS))
