"""Claims about texts that a policy may write to wear the host down: each is answered within a moment, and rightly."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from paddock.harnesses.opencode.errors import ToolError
from paddock.harnesses.opencode.globs import Glob, GlobError
from paddock.harnesses.opencode.matchers import edit_distance
from paddock.harnesses.opencode.text_edit import AMBIGUOUS, NOT_FOUND, edited_text


@contextmanager
def a_moment(seconds: float = 3.0) -> Iterator[None]:
    started = time.process_time()
    yield
    assert time.process_time() - started < seconds


def plain_distance(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for i, ours in enumerate(left, 1):
        above, row[0] = row[0], i
        for j, theirs in enumerate(right, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (ours != theirs))
    return row[-1]


def test_the_distance_of_two_lines_is_levenshteins() -> None:
    dice = random.Random(7)
    for _ in range(400):
        left, right = ("".join(dice.choices("abc é", k=dice.randrange(0, 90))) for _ in range(2))
        assert edit_distance(left, right) == plain_distance(left, right)
    with a_moment():
        assert edit_distance("a" * 20000, "b" * 20000) == 20000


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("\n" * 20000, "\nx\n\ny\n\n"),
        ("a\n" * 20000, "a\nb\nc\nd\nz"),
        ("a\n" * 20000, "a\n" * 200 + "b"),
        ("a b\n" * 10000, "a  b\n" * 100 + "c"),
        ("\\n\n" * 10000, "\\n\\t" * 50),
        ("x " * 50000, "x  " * 1000 + "y"),
        ("{\n" + "a" * 5000 + "\n}\n", "{\n" + "b" * 5000 + "\n}"),
    ],
)
def test_a_text_that_is_nearly_everywhere_is_refused_soon(text: str, old: str) -> None:
    with a_moment(6.0), pytest.raises(ToolError) as told:
        edited_text(text, old, "new")
    assert str(told.value) in (NOT_FOUND, AMBIGUOUS)


def test_a_replacement_that_would_fill_the_memory_is_refused() -> None:
    for new in ("y" * 200_000, "$'" * 500):
        with a_moment(), pytest.raises(ToolError, match="memory"):
            edited_text("x" * 100_000, "x", new, replace_all=True)


def test_a_glob_of_many_stars_is_matched_in_a_moment() -> None:
    path = "/".join(["a" * 250] * 20)
    with a_moment():
        assert Glob("*a" * 60 + "*b").match(path, folder=False) == "out"
        assert Glob("**/*a*a/" * 15 + "*a*b").match(path, folder=False) == "out"
        assert Glob("*a" * 60 + "*").match(path, folder=False) == "in"
        with pytest.raises(GlobError):
            Glob("{a,b}" * 40)
