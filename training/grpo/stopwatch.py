"""How the time of a run is spent, in seconds of a given clock, by name."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopwatch:
    """Sums spans of time; each name has its own sum."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sums: dict[str, float] = {}
        self._since = clock()

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = self._clock()
        try:
            yield
        finally:
            self._sums[name] = self._sums.get(name, 0.0) + self._clock() - started

    def lap(self) -> dict[str, float]:
        """The sums since the last lap, and `step_s`, all the time since then."""
        now = self._clock()
        sums, self._sums = {**self._sums, "step_s": now - self._since}, {}
        self._since = now
        return sums
