"""Which of many cases of one claim are run by default: a few that are named, the others where `slow` tests are run."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def few(cases: Iterable[Any], quick: Collection[Any], mark: pytest.MarkDecorator = pytest.mark.slow) -> list[Any]:
    """Parameters: those of `quick` as they are, the others with the mark; a tuple is one of several arguments."""
    found = list(cases)
    unknown = [one for one in quick if one not in found]
    assert not unknown, f"no such cases: {unknown}"
    arguments = [one if isinstance(one, tuple) else (one,) for one in found]
    return [
        pytest.param(*words, marks=[] if one in quick else mark) for one, words in zip(found, arguments, strict=True)
    ]


PARTS = pytest.mark.parametrize("part", few(range(4), [0]))
"""For a property with an argument `part`: a quarter of its examples by default."""
