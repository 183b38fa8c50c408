"""What a command wrote, cut to what Codex shows of it.

Source  by trial of Codex 0.169.0 (`shown`) and 0.63.0 (`shown_before`). A token is four bytes, or what is left.
Kept    of each result the first and the last 512 KiB; of these, head and tail of half the budget each.
Law     the text depends on what was written alone, not on the pieces in which it came.
"""

import re
from typing import NamedTuple

BYTES_PER_TOKEN = 4
HALF_BYTES = 1 << 19
"""Also what a shell of the workspace keeps at each end of one result."""
_MARK_ROOM_BYTES = 64
_LEFT_OUT = re.compile(rb"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n")


class Written:
    """Pieces of output: head, tail, and how much it was."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def add(self, piece: bytes, gone_bytes: int = 0) -> None:
        """`gone_bytes`: what is missing behind it."""
        self.total_bytes += len(piece) + gone_bytes
        room = HALF_BYTES - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        del self._tail[:-HALF_BYTES]

    @property
    def omitted_bytes(self) -> int:
        """Of the middle; 0: `text` is whole."""
        return max(0, self.total_bytes - 2 * HALF_BYTES)

    @property
    def text(self) -> str:
        gone = self.omitted_bytes
        if not gone:
            return bytes(self._head + self._tail).decode(errors="replace")
        # Of the last bytes that a shell keeps, some may be the session's own mark.
        head, tail = bytes(self._head), bytes(self._tail[-HALF_BYTES + _MARK_ROOM_BYTES :])
        return f"{head.decode(errors='replace')}\n... {gone} bytes omitted ...\n{tail.decode(errors='replace')}"


class Torn(NamedTuple):
    """Output without its middle."""

    before: bytes
    gone_bytes: int
    after: bytes


def torn(output: bytes) -> Torn | None:
    """One result of a shell of the workspace, where that kept its two ends only; None: it is whole."""
    gap = _LEFT_OUT.match(output, HALF_BYTES) if len(output) > 2 * HALF_BYTES else None
    return Torn(output[: gap.start()], int(gap[1]), output[gap.end() :]) if gap else None


class Headed(NamedTuple):
    heading: str
    """How many lines there were, where some are missing; ends in a newline."""
    text: str


class Cut(NamedTuple):
    text: str
    is_cut: bool


def tokens(size_bytes: int) -> int:
    return -(-size_bytes // BYTES_PER_TOKEN)


def cut(text: str, max_tokens: int, size_bytes: int | None = None) -> Cut:
    """Head and tail of a text, and between them how much is missing; of `size_bytes`, where the text has had more."""
    data = text.encode(errors="replace")
    if len(data) <= max_tokens * BYTES_PER_TOKEN:
        return Cut(text, is_cut=False)
    half = max_tokens * BYTES_PER_TOKEN // 2
    head = data[:half].decode(errors="ignore")
    tail = data[len(data) - half :].decode(errors="ignore")
    return Cut(f"{head}…{tokens(size_bytes or len(data)) - max_tokens} tokens truncated…{tail}", is_cut=True)


def shown(written: Written, max_tokens: int) -> str:
    """As `exec_command` shows it."""
    text, gone = written.text, written.omitted_bytes
    done = cut(text, max_tokens)
    if not done.is_cut:
        return text
    if gone:
        kept_bytes = 2 * HALF_BYTES + len(f"\n... {gone} bytes omitted ...\n")
        done = cut(text, max_tokens, kept_bytes)
    size = written.total_bytes if gone else len(text.encode(errors="replace"))
    lines = f"... {gone} bytes omitted ..." if gone else f"Total output lines: {line_count(text)}"
    return f"Warning: truncated output (original token count: {tokens(size)})\n{lines}\n\n{done.text}"


def line_count(text: str) -> int:
    """Ended by "\\n", the last one or not."""
    return text.count("\n") + (not text.endswith("\n") and text != "")


def shown_before(text: str, max_tokens: int) -> Headed:
    """As version 0.63 shows it."""
    done = cut(text, max_tokens)
    lines = line_count(text)
    missing = done.is_cut and line_count(done.text) < lines
    return Headed(f"Total output lines: {lines}\n" if missing else "", done.text)
