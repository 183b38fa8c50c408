"""Canaries: texts that stand only where no agent may look; one that is seen in what an agent reads is a leak.

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
    """The tokens of this machine and this process, put where they belong; the machine's is first."""
    return [_file_token(home), os.environ.setdefault(VARIABLE, _token())]


def of_row(given: Any, shown: str) -> list[str]:
    """The canaries of a row; RowError where they would accuse the honest."""
    texts = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    if given is not None and (not texts or not all(isinstance(text, str) and len(text) >= MIN_CHARS for text in texts)):
        raise RowError(f"canary: needs a text, or a list of texts, of at least {MIN_CHARS} characters", kind="canary")
    if any(text in shown for text in texts):
        raise RowError("canary: it stands in what the agent is told", kind="canary")
    return texts


class Canaries:
    """Those of one rollout, and whether one was seen."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = [text.encode() for text in texts if text]
        self.hit = False

    def look(self, data: bytes) -> None:
        """LeakError when one of them is in it."""
        if any(text in data for text in self._texts):
            self.hit = True
            self.check()

    def check(self) -> None:
        """LeakError when one was seen, whoever caught the first."""
        if self.hit:
            raise LeakError("the agent has read what is hidden from it: a canary was seen", kind="canary")


def _token() -> str:
    return f"paddock-canary-{secrets.token_hex(16)}"


def _file_token(home: Path) -> str:
    """As the file has it; made by whoever comes first."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / FILE
    fresh = home / f".{FILE}.{secrets.token_hex(8)}"
    if not path.exists():
        fresh.write_text(_token() + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)  # whole, or not at all
        fresh.unlink()
    return path.read_text().strip()
