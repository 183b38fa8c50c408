"""Text of sampled ids while they come.

Law     all that was fed and `end()` together are the `decode` of all ids but stop ids, however they were split: exactly
        so with a byte-level vocabulary; with byte fallback where the bytes are text.
        Text is given out as soon as its characters are whole: what ends in an unfinished one is held back.
Cost    in proportion to the ids: a short window of them is decoded again with each feed.
"""

from collections.abc import Callable, Sequence

UNFINISHED = "\ufffd"
"""What bytes decode to that are no character, or not yet."""
_CONTEXT_IDS = 4
"""Decoders that treat the start of a text in their own way see some ids before it. No character takes more ids."""
_HELD_IDS = 32
"""Of more ids held back, those that can't be part of an unfinished character are let go."""


class Decoder:
    """Of one answer."""

    def __init__(self, decode: Callable[[Sequence[int]], str], stop_ids: frozenset[int]) -> None:
        self._decode = decode
        self._stop_ids = stop_ids
        self._context: list[int] = []
        self._context_chars = 0
        self._held: list[int] = []
        self._given_chars = 0
        """Of the held ids' text."""

    def whole(self, ids: Sequence[int]) -> str:
        """The text of an answer that is complete; of one that is fed, see `feed`."""
        return self._decode([each for each in ids if each not in self._stop_ids])

    def feed(self, ids: Sequence[int]) -> str:
        """The text that `ids` complete."""
        self._held += [each for each in ids if each not in self._stop_ids]
        if not self._held:
            return ""
        text = self._text()
        whole = text.rstrip(UNFINISHED)
        new = whole[self._given_chars :]
        if whole == text:
            self._let_go(len(self._held))
        else:
            self._given_chars = max(self._given_chars, len(whole))
            if len(self._held) > _HELD_IDS:
                new += self._shorten(text)
        return new

    def end(self) -> str:
        """What was held back."""
        new = self._text()[self._given_chars :]
        self._let_go(len(self._held))
        return new

    def _text(self) -> str:
        """Of the held ids."""
        return self._decode(self._context + self._held)[self._context_chars :]

    def _let_go(self, count: int) -> None:
        self._context = (self._context + self._held[:count])[-_CONTEXT_IDS:]
        self._context_chars = len(self._decode(self._context))
        self._held = self._held[count:]
        self._given_chars = 0

    def _shorten(self, text: str) -> str:
        """Lets ids go where the text falls apart into that of two halves: no character lies across."""
        for kept in range(_CONTEXT_IDS, 2 * _CONTEXT_IDS):
            before, after = self._decode(self._context + self._held[:-kept]), self._decode(self._held[-kept:])
            if before[self._context_chars :] + after == text:
                new = before[self._context_chars + self._given_chars :]
                given_after = max(0, self._context_chars + self._given_chars - len(before))
                self._let_go(len(self._held) - kept)
                self._given_chars = given_after
                return new
        return ""
