"""CanaryWatch: texts that stand only where no agent may look; one that is seen in what an agent reads is a leak.

Planted a random token of this process in its environment, one of this machine in `<home>/canary` and in every rollout's
        `meta.json`; the rollout's own secret, which is never inside; and, where a row has it, its `canary`: a text that
        whoever made the row put into its hidden tests or its fix.
Law     nothing else counts. An honest agent may well write the very lines of the known fix; it can't come upon random
        bits by itself, nor can a policy forge them to be excused from its verdict.
Limits  a text that is cut or encoded on its way out is not recognised: isolation is what keeps things in.
"""

import contextlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paddock.errors import LeakError, RowError

VARIABLE = "PADDOCK_CANARY"
FILE = "canary"
MIN_CHARS = 16
"""Shorter texts come about by chance."""


def plant(home: Path) -> list[str]:
    """Put the tokens of this machine and this process where they belong, and return them; the machine's is first."""
    return [_file_token(home), os.environ.setdefault(VARIABLE, _token())]


def of_row(value: Any, shown: str) -> list[str]:
    """Return the canaries of a row; RowError where they would accuse an honest agent.

    `value` is the row's `canary`: a text or a list of texts; `shown` is what the agent reads of the row.
    """
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if value is not None and (not texts or not all(isinstance(text, str) and len(text) >= MIN_CHARS for text in texts)):
        raise RowError(f"canary: needs a text, or a list of texts, of at least {MIN_CHARS} characters", kind="canary")
    if any(text in shown for text in texts):
        raise RowError("canary: it stands in what the agent is told", kind="canary")
    return texts


class CanaryWatch:
    """The canaries of one rollout, and whether one was seen."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = [text.encode() for text in texts if text]
        self.seen = False

    def look(self, data: bytes) -> None:
        """Raise LeakError when one of them is in `data`."""
        if any(text in data for text in self._texts):
            self.seen = True
            self.check()

    def check(self) -> None:
        """Raise LeakError when one was seen before, whoever caught that error."""
        if self.seen:
            raise LeakError("the agent has read what is hidden from it: a canary was seen", kind="canary")


def _token() -> str:
    return f"paddock-canary-{secrets.token_hex(16)}"


def _file_token(home: Path) -> str:
    """Read the machine's token; the first process that comes writes it."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / FILE
    temporary = home / f".{FILE}.{secrets.token_hex(8)}"
    if not path.exists():
        temporary.write_text(_token() + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)  # whole, or not at all
        temporary.unlink()
    return path.read_text().strip()
