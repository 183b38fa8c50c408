"""Ids that are sent again and again, each time with more behind them."""

from collections.abc import Iterable

import orjson


class GrowingIds(list[int]):
    """Ids whose JSON is kept. To be changed at the end alone, where more is added.

    A prompt goes to an engine over HTTP with every call of its rollout: so each id is written once, not once per call.
    """

    __slots__ = ("_json", "_written")

    def __init__(self, ids: Iterable[int] = ()) -> None:
        super().__init__(ids)
        self._json = bytearray()
        self._written = 0
        """How many ids are in it."""

    def json(self) -> bytes:
        """A list of numbers."""
        if self._written < len(self):
            if self._written:
                self._json += b","
            self._json += orjson.dumps(self[self._written :])[1:-1]
            self._written = len(self)
        return b"".join((b"[", self._json, b"]"))
