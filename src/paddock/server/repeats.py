"""Log lines that say the same: one of them, and how many more there were.

Law     a text passes once in `EVERY_S`; the next time it passes it says how many were left out meanwhile.
"""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

EVERY_S = 60.0
MAX_TEXTS = 1000
"""Texts that are remembered: beyond, all are forgotten, and pass again."""


class RepeatFilter(logging.Filter):
    """Lets a text through once in a while."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        super().__init__()
        self._every_s = every_s
        self._left_out: dict[str, int] = {}
        self._passed_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text, now = record.getMessage(), time.monotonic()
        if now - self._passed_at.get(text, -self._every_s) < self._every_s:
            self._left_out[text] = self._left_out.get(text, 0) + 1
            return False
        if len(self._passed_at) >= MAX_TEXTS:
            self._passed_at.clear()
        more = self._left_out.pop(text, 0)
        if more:
            record.msg, record.args = f"{text} ({more} more times before)", ()
        self._passed_at[text] = now
        return True

    def unreported(self) -> Iterator[str]:
        """Texts that were left out and not reported, with their number."""
        for text, more in self._left_out.items():
            yield f"{text} ({more} more times)"


def log_warnings() -> None:
    """Warnings of this process go to stderr from here on, each text once in a while: for a process that serves. Where
    the root logger has handlers, they are another's, and stay as they are."""
    handler = logging.StreamHandler()
    handler.addFilter(RepeatFilter())
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s", handlers=[handler])


class _Stderr(logging.Handler):
    """To what stderr is at that time: a progress bar takes its place."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)  # noqa: T201 - the command's voice


@contextmanager
def warnings_once() -> Iterator[None]:
    """Warnings go to stderr while the block runs, each text once in a while."""
    handler, repeats = _Stderr(logging.WARNING), RepeatFilter()
    handler.addFilter(repeats)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for text in repeats.unreported():
            print(text, file=sys.stderr)  # noqa: T201 - the command's voice
