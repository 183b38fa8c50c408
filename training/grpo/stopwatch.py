"""How the time of a run is spent, in seconds of a given clock, by name."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopwatch:
    """Sums spans of time; each name has its own sum."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sums: dict[str, float] = {}
        self._since = clock()
        self.current: tuple[str, float] | None = None
        """Name of the span that runs, and the clock's time at its start; None: none runs."""

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = self._clock()
        outer, self.current = self.current, (name, started)
        try:
            yield
        finally:
            self.current = outer
            self._sums[name] = self._sums.get(name, 0.0) + self._clock() - started

    def lap(self) -> dict[str, float]:
        """The sums since the last lap, and `step_s`, all the time since then."""
        now = self._clock()
        sums, self._sums = {**self._sums, "step_s": now - self._since}, {}
        self._since = now
        return sums
