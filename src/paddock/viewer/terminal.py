"""Blocks as lines of text. Nothing that was recorded can move a cursor: control characters are shown as signs.

Width   two columns are wrapped to share `width` characters; other lines are not wrapped.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from paddock.viewer.blocks import Block, Diff, Fold, Grid, Heading, LabelledValues, TextBlock, Tone, TwoColumns, visible

STYLES: dict[Tone, str] = {
    "plain": "",
    "strong": "bold",
    "good": "green",
    "bad": "red",
    "faint": "bright_black",
    "call": "cyan",
}
"""Styles of rich, by tone."""
INDENT = "  "
GUTTER = " | "


class TextLine(NamedTuple):
    body: str
    tone: Tone = "plain"
    margin: str = ""
    """Text before the line, and before each line that it is wrapped to."""

    @property
    def text(self) -> str:
        return self.margin + self.body


def render(blocks: Sequence[Block], width: int) -> Iterator[TextLine]:
    for block in blocks:
        yield from _render_block(block, width)


def diff_tone(line: str) -> Tone:
    if line.startswith(("diff --git ", "+++ ", "--- ", "index ")):
        return "strong"
    if line.startswith("@@"):
        return "call"
    return "good" if line.startswith("+") else "bad" if line.startswith("-") else "plain"


def _render_block(block: Block, width: int) -> Iterator[TextLine]:
    if isinstance(block, Heading):
        yield TextLine("")
        yield TextLine(visible(block.text), block.tone)
    elif isinstance(block, TextBlock):
        yield from (TextLine(line, block.tone, block.margin) for line in _lines(block.text))
    elif isinstance(block, Diff):
        yield from (TextLine(line, diff_tone(line)) for line in _lines(block.text))
    elif isinstance(block, Fold):
        yield TextLine("")
        yield TextLine(f"== {visible(block.title)}", block.tone)
        yield from render(block.blocks, width)
    elif isinstance(block, TwoColumns):
        yield from _two_columns(block, width)
    else:
        yield from _table(block)


def _table(block: LabelledValues | Grid) -> Iterator[TextLine]:
    if isinstance(block, LabelledValues):
        wide = max((len(fact.label) for fact in block.facts), default=0)
        for fact in block.facts:
            first, *more = _lines(fact.text) or [""]
            yield TextLine(f"{INDENT}{fact.label:<{wide}}  {first}", fact.tone)
            yield from (TextLine(f"{INDENT}{'':<{wide}}  {line}", fact.tone) for line in more)
        return
    texts = [[" ".join(visible(cell.text).split()) for cell in row] for row in block.rows]
    widths = [max(map(len, column)) for column in zip(block.header, *texts, strict=True)]
    yield TextLine(_row(block.header, widths), "faint")
    for row, cells in zip(block.rows, texts, strict=True):
        tones: list[Tone] = [cell.tone for cell in row if cell.tone != "plain"]
        yield TextLine(_row(cells, widths), tones[0] if len(set(tones)) == 1 else "plain")


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)]
    return (INDENT + INDENT.join(padded)).rstrip()


def _two_columns(block: TwoColumns, width: int) -> Iterator[TextLine]:
    column = max(20, (width - len(GUTTER)) // 2)
    sides = [list(_wrap_lines(render(side, column), column)) for side in (block.left, block.right)]
    for left, right in zip_longest(*sides, fillvalue=TextLine("")):
        tone: Tone = left.tone if left.tone == right.tone else "plain"
        yield TextLine(f"{left.text:<{column}}{GUTTER}{right.text}".rstrip(), tone)


def _wrap_lines(lines: Iterator[TextLine], width: int) -> Iterator[TextLine]:
    for line in lines:
        room = width - len(line.margin)
        for start in range(0, max(1, len(line.body)), room):
            yield line._replace(body=line.body[start : start + room])


def _lines(text: str) -> list[str]:
    return [line.expandtabs() for line in visible(text).split("\n")]
