"""The output of a command, truncated as Codex truncates it.

Source  by trial of Codex 0.169.0 (`format_output`) and 0.63.0 (`format_older_output`). A token is four bytes, or less
        at the end.
Sizes   of each result the first and the last 512 KiB are kept; of these, head and tail of half the budget each.
Law     the text depends on what was written alone, not on the pieces in which it came.
"""

import re
from typing import NamedTuple

BYTES_PER_TOKEN = 4
HALF_BYTES = 1 << 19
"""Also what a shell of the workspace keeps at each end of one result."""
_MARK_ROOM_BYTES = 64
_LEFT_OUT = re.compile(rb"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n")


class OutputBuffer:
    """Collects pieces of output: a head, a tail, and the size of all."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def add(self, piece: bytes, gone_bytes: int = 0) -> None:
        """Add a piece; `gone_bytes`: how many bytes are missing after it."""
        self.total_bytes += len(piece) + gone_bytes
        room = HALF_BYTES - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        del self._tail[:-HALF_BYTES]

    @property
    def omitted_bytes(self) -> int:
        """Bytes that are missing in the middle; 0: `text` is whole."""
        return max(0, self.total_bytes - 2 * HALF_BYTES)

    @property
    def text(self) -> str:
        gone = self.omitted_bytes
        if not gone:
            return bytes(self._head + self._tail).decode(errors="replace")
        # Of the last bytes that a shell keeps, some may be the session's own mark.
        head, tail = bytes(self._head), bytes(self._tail[-HALF_BYTES + _MARK_ROOM_BYTES :])
        return f"{head.decode(errors='replace')}\n... {gone} bytes omitted ...\n{tail.decode(errors='replace')}"


class SplitOutput(NamedTuple):
    """The two ends of an output whose middle is missing."""

    before: bytes
    gone_bytes: int
    after: bytes


def split_output(output: bytes) -> SplitOutput | None:
    """Split a shell's result of which the workspace kept the two ends only; None: it is whole."""
    gap = _LEFT_OUT.match(output, HALF_BYTES) if len(output) > 2 * HALF_BYTES else None
    return SplitOutput(output[: gap.start()], int(gap[1]), output[gap.end() :]) if gap else None


class HeadedText(NamedTuple):
    heading: str
    """How many lines there were, where some are missing; ends in a newline."""
    text: str


class TruncatedText(NamedTuple):
    text: str
    is_truncated: bool


def tokens(size_bytes: int) -> int:
    return -(-size_bytes // BYTES_PER_TOKEN)


def truncate(text: str, max_tokens: int, size_bytes: int | None = None) -> TruncatedText:
    """Keep head and tail of a text and say between them how much is missing. `size_bytes`: the size of the whole, where
    the text is only a part."""
    data = text.encode(errors="replace")
    if len(data) <= max_tokens * BYTES_PER_TOKEN:
        return TruncatedText(text, is_truncated=False)
    half = max_tokens * BYTES_PER_TOKEN // 2
    head = data[:half].decode(errors="ignore")
    tail = data[len(data) - half :].decode(errors="ignore")
    return TruncatedText(
        f"{head}…{tokens(size_bytes or len(data)) - max_tokens} tokens truncated…{tail}", is_truncated=True
    )


def format_output(buffer: OutputBuffer, max_tokens: int) -> str:
    """Format output as `exec_command` shows it."""
    text, gone = buffer.text, buffer.omitted_bytes
    done = truncate(text, max_tokens)
    if not done.is_truncated:
        return text
    if gone:
        shown_bytes = 2 * HALF_BYTES + len(f"\n... {gone} bytes omitted ...\n")
        done = truncate(text, max_tokens, shown_bytes)
    size = buffer.total_bytes if gone else len(text.encode(errors="replace"))
    lines = f"... {gone} bytes omitted ..." if gone else f"Total output lines: {line_count(text)}"
    return f"Warning: truncated output (original token count: {tokens(size)})\n{lines}\n\n{done.text}"


def line_count(text: str) -> int:
    """Count lines; the last one may lack its newline."""
    return text.count("\n") + (not text.endswith("\n") and text != "")


def format_older_output(text: str, max_tokens: int) -> HeadedText:
    """Format output as version 0.63 shows it."""
    done = truncate(text, max_tokens)
    lines = line_count(text)
    missing = done.is_truncated and line_count(done.text) < lines
    return HeadedText(f"Total output lines: {lines}\n" if missing else "", done.text)
