"""A file's text as a table of lines, searched for blocks of lines in time linear in the text, whatever the block.

Units    line indexes are 0-based here.
Match    a block matches whole lines. The four `LEVELS` make lines comparable, each coarser than the one before: as they
         are; without trailing whitespace; without whitespace at either end; and with typographic dashes, quotes and
         spaces as their ASCII forms.
Endings  "\\n"; with `returns`, "\\r\\n" and "\\r" too. A kept line keeps its ending; new lines, and a last line that
         has none and needs one, get the text's first.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, repeat
from typing import NamedTuple

_NEWLINE = re.compile(r"(\r\n|\r|\n)")
_ODD_SPACES = "\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
WHITE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2028\u2029" + _ODD_SPACES
"""Unicode's White_Space; Python's own `strip` also takes the four information separators."""

_ASCII = str.maketrans("‐‑‒–—―−‘’‚‛“”„‟\xa0" + _ODD_SPACES, "-" * 7 + "'" * 4 + '"' * 4 + " " * 13)

LEVELS: tuple[Callable[[str], str], ...] = (
    str,
    lambda line: line.rstrip(WHITE),
    lambda line: line.strip(WHITE),
    lambda line: line.strip(WHITE).translate(_ASCII),
)


class LineChange(NamedTuple):
    """Lines `start` to `end`, `end` not included, become `new`."""

    start: int
    end: int
    new: Sequence[str]


class _NormalizedText(NamedTuple):
    """All lines at one level as one string, each line between newlines, and where in it each line begins."""

    text: str
    starts: list[int]


class LineTable:
    """The lines of one text; the texts of the coarser levels are made at first use."""

    def __init__(self, text: str, *, returns: bool) -> None:
        self._endings: list[str] | None = None
        """None: all of them are "\\n"."""
        if returns and "\r" in text:
            parts = _NEWLINE.split(text)
            raw, self._endings = parts[::2], parts[1::2]
        else:
            raw = text.split("\n")
        self._newline = self._endings[0] if self._endings else "\n"
        self.ends_in_newline = not raw[-1]
        if self.ends_in_newline:
            raw.pop()
        self.lines = raw
        self._forms: dict[int, _NormalizedText] = {}
        self._reversed: str | None = None

    def __len__(self) -> int:
        return len(self.lines)

    def find(self, block: Sequence[str], start: int, level: int = 0) -> int | None:
        """First index from `start` on where the block stands; an empty block stands anywhere."""
        if not block:
            return start
        if start + len(block) > len(self.lines):
            return None
        form = self._form(level)
        at = form.text.find(_joined(block, level), form.starts[start] - 1)
        return None if at < 0 else bisect_right(form.starts, at + 1) - 1

    def find_last(self, block: Sequence[str], start: int, stop: int) -> int | None:
        """Last index in `start` to `stop`, `stop` not included, where the block stands as it is."""
        last = min(stop - 1, len(self.lines) - len(block))
        if not block or last < start:
            return None
        form = self._form(0)
        wanted = _joined(block, 0)
        # Only a search from the front is linear for every text, so the last place is the first one of the mirror image.
        if self._reversed is None:
            self._reversed = form.text[::-1]
        size = len(form.text)
        at = self._reversed.find(wanted[::-1], size - (form.starts[last] - 1) - len(wanted))
        if at < 0:
            return None
        index = bisect_right(form.starts, size - at - len(wanted) + 1) - 1
        return index if index >= start else None

    def matches(self, block: Sequence[str], index: int, level: int = 0) -> bool:
        """True when the block stands at `index`."""
        if index < 0 or index + len(block) > len(self.lines):
            return False
        form = LEVELS[level]
        return all(
            form(mine) == form(wanted)
            for mine, wanted in zip(self.lines[index : index + len(block)], block, strict=True)
        )

    def render(self, changes: Sequence[LineChange], *, final_newline: bool) -> str:
        """The text after sorted changes that do not overlap. Every line gets an ending, the last one if asked."""
        out: list[str] = []
        at = 0
        for change in changes:
            out.append(self._unchanged(at, change.start))
            out += [line + self._newline for line in change.new]
            at = change.end
        out.append(self._unchanged(at, len(self.lines)))
        text = "".join(out)
        return text if final_newline else text.removesuffix("\n")

    def _unchanged(self, start: int, end: int) -> str:
        lines = self.lines[start:end]
        if self._endings is None:
            return "\n".join([*lines, ""])
        endings = chain(self._endings[start:end], repeat(self._newline))
        return "".join([line + newline for line, newline in zip(lines, endings, strict=False)])

    def _form(self, level: int) -> _NormalizedText:
        if level not in self._forms:
            lines = [LEVELS[level](line) for line in self.lines] if level else self.lines
            starts = list(accumulate(map((1).__add__, map(len, lines)), initial=1))
            self._forms[level] = _NormalizedText("\n" + "\n".join(lines) + "\n", starts[:-1])
        return self._forms[level]


def _joined(block: Sequence[str], level: int) -> str:
    return "\n" + "\n".join(map(LEVELS[level], block)) + "\n"
