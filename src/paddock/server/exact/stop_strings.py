"""Stop texts of a client: what it reads ends before the first of them, whatever else was sampled.

Law     an engine stops once a stop text is there; the last id may bring characters beyond it. The ids stay as they were
        sampled; the text is cut. The first is the one that is complete first, of two that end together the longer: so
        it is the same one however the text comes. What may be the beginning of one is held back until more is known.
"""

from collections.abc import Sequence
from typing import Any


class Stopper:
    """Of one answer."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.found: str | None = None
        """The stop text that ended it; None: none yet."""
        self._texts = [text for text in texts if text]
        self._held = ""

    def feed(self, text: str, *, finished: bool) -> str:
        """Of all text so far, what may be told now."""
        if not self._texts or self.found is not None:
            return "" if self.found is not None else text
        held = self._held + text
        places = [(place + len(stop), place, stop) for stop in self._texts if (place := held.find(stop)) >= 0]
        if places:
            _, place, self.found = min(places)
            return held[:place]
        kept = 0 if finished else max(_overlap(held, stop) for stop in self._texts)
        self._held = held[len(held) - kept :]
        return held[: len(held) - kept]


def stop_texts(given: Any) -> list[str]:
    """Of a request's `stop`."""
    texts = given if isinstance(given, list) else [given]
    return [text for text in texts if isinstance(text, str)]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if stop.startswith(text[-size:])), 0)
