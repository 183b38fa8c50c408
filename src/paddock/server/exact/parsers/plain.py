"""The parser of answers in which nothing is a call or a thought."""

from collections.abc import Sequence

from paddock.types import JsonObject


class PlainParser:
    """Takes all text as content."""

    def feed(self, text: str, ids: Sequence[int], *, finished: bool) -> JsonObject | None:
        return {"content": text} if text else None

    def whole(self, text: str, ids: Sequence[int]) -> JsonObject:
        return {"content": text}
