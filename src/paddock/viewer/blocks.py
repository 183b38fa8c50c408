"""Blocks: what is shown, in a form that both `terminal` and `page` render.

Law     blocks hold text as it was recorded; each renderer makes it harmless (`visible`) and escapes it.
Tones   `good`, `bad` and `faint` judge; `strong` and `call` only set apart.
"""

import re
from typing import Literal, NamedTuple, Union

Tone = Literal["plain", "strong", "good", "bad", "faint", "call"]
Margin = Literal["", "  ", "  | "]
"""Text before each line of a call's arguments, or of a result."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Heading(NamedTuple):
    text: str
    tone: Tone = "strong"


class TextBlock(NamedTuple):
    """Lines, shown as they are."""

    text: str
    tone: Tone = "plain"
    margin: Margin = ""


class Diff(NamedTuple):
    """A git patch."""

    text: str


class Cell(NamedTuple):
    text: str
    tone: Tone = "plain"


class LabelledValue(NamedTuple):
    """A line of a table with two columns."""

    label: str
    text: str
    tone: Tone = "plain"


class LabelledValues(NamedTuple):
    facts: list[LabelledValue]


class Grid(NamedTuple):
    header: list[str]
    rows: list[list[Cell]]


class Fold(NamedTuple):
    """Blocks under a title, which a page can hide."""

    title: str
    blocks: "list[Block]"
    open: bool = True
    tone: Tone = "plain"


class TwoColumns(NamedTuple):
    """Two columns."""

    left: "list[Block]"
    right: "list[Block]"


Block = Union[Heading, TextBlock, Diff, LabelledValues, Grid, Fold, TwoColumns]  # noqa: UP007 - a string inside refers to it


class LengthLimits(NamedTuple):
    """The most that is shown, in characters; longer texts are cut."""

    result: int
    """One result of a tool."""
    text: int
    """Any other text: a message, an argument, the task."""
    patch: int
    turns: int
    """All turns of a rollout together; the turns after that are only counted."""


TERMINAL_LIMITS = LengthLimits(result=1500, text=6000, patch=60_000, turns=2_000_000)
PAGE_LIMITS = LengthLimits(result=8000, text=20_000, patch=200_000, turns=4_000_000)


def visible(text: str) -> str:
    """The text with every character that would do something (move a cursor, turn the writing round) as a sign."""
    return _CONTROL.sub(_sign, text.replace("\r\n", "\n"))


def cut(text: str, limit: int) -> str:
    """The beginning and the end of a long text, and how much was left out between them."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return (
        f"{text[:head]}\n[... {len(text) - limit} of {len(text)} characters left out ...]\n{text[len(text) - tail :]}"
    )


def _sign(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\\u{code:04x}"
