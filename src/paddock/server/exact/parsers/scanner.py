"""Marks of a format in text that comes in pieces.

Law     the pieces given back, joined, are the text that was fed; each mark is a piece of its own, and where marks stand
        does not depend on how the text came. What may be the beginning of a mark is held back until more is known.
        No mark may begin with another.
"""

import re
from collections.abc import Collection


class MarkScanner:
    """Splits the text of one answer at marks."""

    def __init__(self, marks: Collection[str]) -> None:
        """`marks`: at least one."""
        self._marks = tuple(marks)
        self._pattern = re.compile(f"({'|'.join(map(re.escape, self._marks))})")
        self._pending = ""

    def feed(self, text: str, *, finished: bool) -> list[str]:
        """Marks and the text between them, in order, none of it empty."""
        *pieces, last = self._pattern.split(self._pending + text)
        size = 0 if finished else max(overlap(last, mark) for mark in self._marks)
        self._pending = last[len(last) - size :]
        return [piece for piece in (*pieces, last[: len(last) - size]) if piece]


def overlap(text: str, mark: str) -> int:
    """Length of the longest end of `text` that begins `mark`."""
    longest = min(len(text), len(mark) - 1)
    return next((size for size in range(longest, 0, -1) if mark.startswith(text[-size:])), 0)
