"""Blocks as lines of text. Nothing that was recorded can move a cursor: control characters are shown as signs.

Wide    two columns share `width`, and are folded to it; other lines are as long as they are.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from paddock.viewer.blocks import Beside, Block, Diff, Facts, Fold, Grid, Heading, Text, Tone, visible

STYLES: dict[Tone, str] = {
    "plain": "",
    "strong": "bold",
    "good": "green",
    "bad": "red",
    "faint": "bright_black",
    "call": "cyan",
}
"""Of rich."""
INDENT = "  "
GUTTER = " | "


class Line(NamedTuple):
    body: str
    tone: Tone = "plain"
    margin: str = ""
    """Stands before it, and before what it is folded into."""

    @property
    def text(self) -> str:
        return self.margin + self.body


def rendered(blocks: Sequence[Block], width: int) -> Iterator[Line]:
    for block in blocks:
        yield from _rendered(block, width)


def diff_tone(line: str) -> Tone:
    if line.startswith(("diff --git ", "+++ ", "--- ", "index ")):
        return "strong"
    if line.startswith("@@"):
        return "call"
    return "good" if line.startswith("+") else "bad" if line.startswith("-") else "plain"


def _rendered(block: Block, width: int) -> Iterator[Line]:
    if isinstance(block, Heading):
        yield Line("")
        yield Line(visible(block.text), block.tone)
    elif isinstance(block, Text):
        yield from (Line(line, block.tone, block.margin) for line in _lines(block.text))
    elif isinstance(block, Diff):
        yield from (Line(line, diff_tone(line)) for line in _lines(block.text))
    elif isinstance(block, Fold):
        yield Line("")
        yield Line(f"== {visible(block.title)}", block.tone)
        yield from rendered(block.blocks, width)
    elif isinstance(block, Beside):
        yield from _beside(block, width)
    else:
        yield from _table(block)


def _table(block: Facts | Grid) -> Iterator[Line]:
    if isinstance(block, Facts):
        wide = max((len(fact.label) for fact in block.facts), default=0)
        for fact in block.facts:
            first, *more = _lines(fact.text) or [""]
            yield Line(f"{INDENT}{fact.label:<{wide}}  {first}", fact.tone)
            yield from (Line(f"{INDENT}{'':<{wide}}  {line}", fact.tone) for line in more)
        return
    texts = [[" ".join(visible(cell.text).split()) for cell in row] for row in block.rows]
    widths = [max(map(len, column)) for column in zip(block.header, *texts, strict=True)]
    yield Line(_row(block.header, widths), "faint")
    for row, cells in zip(block.rows, texts, strict=True):
        tones: list[Tone] = [cell.tone for cell in row if cell.tone != "plain"]
        yield Line(_row(cells, widths), tones[0] if len(set(tones)) == 1 else "plain")


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)]
    return (INDENT + INDENT.join(padded)).rstrip()


def _beside(block: Beside, width: int) -> Iterator[Line]:
    column = max(20, (width - len(GUTTER)) // 2)
    sides = [list(_folded(rendered(side, column), column)) for side in (block.left, block.right)]
    for left, right in zip_longest(*sides, fillvalue=Line("")):
        tone: Tone = left.tone if left.tone == right.tone else "plain"
        yield Line(f"{left.text:<{column}}{GUTTER}{right.text}".rstrip(), tone)


def _folded(lines: Iterator[Line], width: int) -> Iterator[Line]:
    for line in lines:
        room = width - len(line.margin)
        for start in range(0, max(1, len(line.body)), room):
            yield line._replace(body=line.body[start : start + room])


def _lines(text: str) -> list[str]:
    return [line.expandtabs() for line in visible(text).split("\n")]
