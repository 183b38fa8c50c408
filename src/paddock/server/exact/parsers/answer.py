"""The parser of an answer that is reasoning, then content and calls.

Law     `whole` is `feed` once: an answer means the same however it came. Nothing of it is lost but marks that were
        understood, and blank text around calls.
"""

from collections.abc import Sequence

from paddock.server.exact.parsers.calls import AnswerCall, CallReader
from paddock.server.exact.parsers.thoughts import ReasoningReader, ReasoningSplit
from paddock.types import JsonObject


class AnswerParser:
    """One answer, read in two steps."""

    def __init__(self, reasoning: ReasoningReader | None, calls: CallReader | None) -> None:
        """None: nothing is reasoning, or nothing is a call."""
        self._reasoning = reasoning
        self._calls = calls

    def feed(self, text: str, ids: Sequence[int], *, finished: bool) -> JsonObject | None:
        split = ReasoningSplit("", text) if self._reasoning is None else self._reasoning.feed(text, finished=finished)
        if self._calls is None:
            return message_delta(split.reasoning, split.rest)
        content = self._calls.feed(split.rest, finished=finished)
        return message_delta(split.reasoning, content, self._calls.calls if finished else ())

    def whole(self, text: str, ids: Sequence[int]) -> JsonObject:
        return {"content": "", **(self.feed(text, ids, finished=True) or {})}


def message_delta(reasoning: str, content: str, calls: Sequence[AnswerCall] = ()) -> JsonObject | None:
    """The delta of a chat message; None: it says nothing."""
    delta: JsonObject = {}
    if reasoning:
        delta["reasoning_content"] = reasoning
    if content:
        delta["content"] = content
    if calls:
        delta["tool_calls"] = [
            {"index": nth, "type": "function", "function": call._asdict()} for nth, call in enumerate(calls)
        ]
    return delta or None
