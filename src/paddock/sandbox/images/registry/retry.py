"""When a registry is asked again, and after how long a wait.

Retried  a lost or refused connection, a stall, 408, 425, 429 and any 5xx; other answers are final.
Waits    doubling from `first_s`, at most `most_s`, a little by chance; `Retry-After` in seconds counts, up to
         `most_retry_after_s`.
Ends     after `attempts` in a row without progress: InfraError.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import httpx

from paddock.errors import InfraError

T = TypeVar("T")
RETRY_STATUSES = frozenset({408, 425, 429})


class Backoff(NamedTuple):
    """How often and how long a client tries again."""

    attempts: int = 6
    """In a row without progress."""
    first_s: float = 0.5
    most_s: float = 20.0
    most_retry_after_s: float = 120.0

    def wait_s(self, failures: int, retry_after_s: float | None) -> float:
        doubled = min(self.most_s, self.first_s * 2.0 ** (failures - 1))
        jittered = doubled * random.uniform(0.8, 1.2)
        return max(jittered, min(retry_after_s or 0.0, self.most_retry_after_s))


class RetryableError(Exception):
    """This attempt failed; another may not."""

    def __init__(self, what: str, *, retry_after_s: float | None = None, progress: bool = False) -> None:
        super().__init__(what)
        self.retry_after_s = retry_after_s
        self.progress = progress


def check_status(response: httpx.Response, what: str) -> None:
    """Raise RetryableError for an answer that may be another next time; other answers pass."""
    if response.status_code in RETRY_STATUSES or response.status_code >= 500:
        after = response.headers.get("retry-after", "")
        raise RetryableError(
            f"{what}: the registry answered {response.status_code}",
            retry_after_s=float(after) if after.isdecimal() else None,
        )


async def persist(attempt: Callable[[], Awaitable[T]], backoff: Backoff, what: str) -> T:
    """What `attempt` returns, asked as often as `backoff` says; transport errors count as RetryableError.

    `what` is asked for: it is named in an error that names nothing itself.
    """
    failures = 0
    while True:
        try:
            return await attempt()
        except (RetryableError, httpx.TransportError) as error:
            failures = 1 if isinstance(error, RetryableError) and error.progress else failures + 1
            if failures >= backoff.attempts:
                text = str(error) or type(error).__name__
                if isinstance(error, httpx.TransportError):
                    text = f"{what}: {text}"
                raise InfraError(f"{text}; given up after {failures} attempts", kind="registry") from error
            await asyncio.sleep(backoff.wait_s(failures, getattr(error, "retry_after_s", None)))
