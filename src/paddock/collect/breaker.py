"""The breaker stops a collection in which nothing works any more.

Law     only failures that another attempt may mend count (outcomes `infra` and `verifier`), and only those of one
        cause: same owner, kind and stage. A verdict, or a failure of another cause, begins the count anew.
"""

import asyncio
from typing import NamedTuple

from paddock.collect.results import FailedAttempt
from paddock.types import RETRIED, Owner


class Cause(NamedTuple):
    """What failures must have in common to be counted together."""

    owner: Owner
    kind: str
    stage: str | None


class Breaker:
    """Counts attempts that failed for one cause, with no verdict between them."""

    def __init__(self, limit: int) -> None:
        """`limit`: number of failures after which it opens; 0: it never does."""
        self.open = asyncio.Event()
        self.why: str | None = None
        """One line for the user, set when it opens."""
        self._limit = limit
        self._cause: Cause | None = None
        self._count = 0

    def verdict(self) -> None:
        self._cause, self._count = None, 0

    def failure(self, failed: FailedAttempt) -> None:
        if failed.outcome not in RETRIED:
            return
        cause = Cause(failed.owner, failed.kind, failed.stage)
        self._count = self._count + 1 if cause == self._cause else 1
        self._cause = cause
        if self._limit and self._count >= self._limit and not self.open.is_set():
            stage = f" in stage {cause.stage}" if cause.stage else ""
            message = " ".join(failed.message.split())[:300]
            self.why = f"stopped: the last {self._count} attempts all failed with {cause.kind}{stage}: {message}"
            self.open.set()
