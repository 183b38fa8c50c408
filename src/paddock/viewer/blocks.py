"""What is shown, whatever shows it: a list of blocks that `terminal` and `page` render.

Law     blocks hold text as it was recorded; each renderer makes it harmless (`visible`) and escapes it.
Tones   `good`, `bad` and `faint` judge; `strong` and `call` only set apart.
"""

import re
from typing import Literal, NamedTuple, Union

Tone = Literal["plain", "strong", "good", "bad", "faint", "call"]
Margin = Literal["", "  ", "  | "]
"""What stands before each line of a call's arguments, and of a result."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Heading(NamedTuple):
    text: str
    tone: Tone = "strong"


class Text(NamedTuple):
    """Lines, kept as they are."""

    text: str
    tone: Tone = "plain"
    margin: Margin = ""


class Diff(NamedTuple):
    """A git patch."""

    text: str


class Cell(NamedTuple):
    text: str
    tone: Tone = "plain"


class Fact(NamedTuple):
    label: str
    text: str
    tone: Tone = "plain"


class Facts(NamedTuple):
    facts: list[Fact]


class Grid(NamedTuple):
    header: list[str]
    rows: list[list[Cell]]


class Fold(NamedTuple):
    """Blocks under a title, which a page can hide."""

    title: str
    blocks: "list[Block]"
    open: bool = True
    tone: Tone = "plain"


class Beside(NamedTuple):
    """Two columns."""

    left: "list[Block]"
    right: "list[Block]"


Block = Union[Heading, Text, Diff, Facts, Grid, Fold, Beside]  # noqa: UP007 - a string inside refers to it


class Cuts(NamedTuple):
    """The most that is shown, in characters."""

    result: int
    """Of one result of a tool."""
    text: int
    """Of any other text: a message, an argument, the task."""
    patch: int
    turns: int
    """Of all turns of a rollout together; then the rest are counted only."""


TERMINAL_CUTS = Cuts(result=1500, text=6000, patch=60_000, turns=2_000_000)
PAGE_CUTS = Cuts(result=8000, text=20_000, patch=200_000, turns=4_000_000)


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


def _sign(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\\u{code:04x}"
