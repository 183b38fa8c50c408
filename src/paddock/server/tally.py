"""What happens many times at once, told once with its count."""

import asyncio
from collections.abc import Callable

QUIET_S = 1.0
"""Seconds after the first of several in which further ones are counted with it."""


class Tally:
    """Counts, in one event loop, and has `say` tell how many there were."""

    def __init__(self, say: Callable[[int], None]) -> None:
        self._say = say
        self._n = 0
        self._due: asyncio.TimerHandle | None = None

    def add(self) -> None:
        self._n += 1
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(QUIET_S, self.tell)

    def tell(self) -> None:
        """Now, if there were any."""
        n, self._n = self._n, 0
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if n:
            self._say(n)
