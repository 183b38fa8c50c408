"""The command of a script that makes rows: `python -m ... --count N --seed S` prints them as JSON lines.

Law     the same count and seed print the same bytes.
"""

import argparse
import sys
from collections.abc import Callable, Iterable

import orjson

from paddock.types import JsonObject


def print_rows(
    description: str | None, make_rows: Callable[[int, int], Iterable[JsonObject]], *, count: int = 10
) -> None:
    """Read the command line and print the rows. `make_rows` is given how many, and the seed; `count`: how many where
    the command does not say."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for row in make_rows(given.count, given.seed):
        sys.stdout.buffer.write(orjson.dumps(row) + b"\n")
