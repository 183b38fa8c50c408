"""Lines of a text, and the lines of those that the next program of a pipeline lets through.

Shapes  lines count from 1 and a range includes both ends.
Errors  None: which lines are left depends on how many there are.
"""

from typing import NamedTuple


class LineRange(NamedTuple):
    """The lines from `first` to `last`, and of those only the last `tail`."""

    first: int = 1
    last: int | None = None
    """None: to the end."""
    tail: int | None = None
    """None: all of them."""

    def cut(self, inner: "LineRange") -> "LineRange | None":
        """Return what `inner` shows of these lines; a range that has a last line is taken to have all its lines."""
        if self.tail is not None:
            if inner.first != 1 or (inner.last is not None and inner.last < self.tail):
                return None
            return self if inner.tail is None else self._replace(tail=min(self.tail, inner.tail))
        first = self.first + inner.first - 1
        last = self.last if inner.last is None else self.first + inner.last - 1
        if self.last is not None and last is not None:
            last = min(last, self.last)
        return None if last is not None and last < first else LineRange(first, last, inner.tail)

    def within(self, count: int | None) -> "LineRange":
        """Return the range in a text of so many lines (None: unknown) with its ends as numbers, where they are known.

        One that begins behind the text's end is left as it is.
        """
        last = self.last
        if count is not None and self.first <= count:
            last = count if last is None else min(last, count)
        if self.tail is None or last is None:
            return self._replace(last=last)
        return LineRange(max(self.first, last - self.tail + 1), last)

    def joined(self, later: "LineRange") -> "LineRange | None":
        """Return both as one where `later` begins in or right behind these lines and goes on; None: it does not."""
        if self.tail is not None or later.tail is not None or self.last is None:
            return None
        goes_on = later.last is None or later.last > self.last
        return LineRange(self.first, later.last) if self.first < later.first <= self.last + 1 and goes_on else None


WHOLE = LineRange()
