"""Which recorded turn a request continues, where the engine gives no ids: by what the request says was said.

Law     a turn is continued when one of its call ids, or else the text of one of its messages, is in the request's
        history; of several turns the latest. A guess about history, so it is used for engine `text` alone.
Shapes  a request in the Responses dialect (`input`) or the Chat dialect (`messages`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from paddock.types import JsonObject, Turn
from paddock.types.responses import calls, content_text, messages, output_items


class Spoken(NamedTuple):
    """What the assistant said so far, as a request tells it."""

    call_ids: frozenset[str]
    texts: frozenset[str]
    """Stripped: clients trim what they send back."""

    @classmethod
    def of(cls, request: JsonObject) -> "Spoken":
        """Of a request in either dialect; what is not of the expected shape was not said."""
        if "messages" in request:
            return cls._of_messages(request["messages"])
        items = output_items(request.get("input"))
        call_ids = frozenset(call.call_id for call in calls(items) if call.call_id)
        # A history item without a role is no message of the assistant's.
        return cls(call_ids, _stripped(messages([item for item in items if "role" in item])))

    @classmethod
    def _of_messages(cls, given: Any) -> "Spoken":
        said = [message for message in output_items(given) if message.get("role") == "assistant"]
        call_ids = frozenset(call_id for message in said for call_id in _call_ids(message.get("tool_calls")))
        return cls(call_ids, _stripped([content_text(message.get("content")) for message in said]))


def continued_turn(turns: Sequence[Turn], request: JsonObject) -> str | None:
    """The id of the latest turn that the request's history holds; None: it holds none."""
    if not turns:
        return None
    spoken = Spoken.of(request)
    if not (spoken.call_ids or spoken.texts):
        return None
    for turn in reversed(turns):
        call_ids = {call.call_id for call in calls(turn.output)}
        if call_ids & spoken.call_ids or (not call_ids and _stripped(messages(turn.output)) & spoken.texts):
            return turn.id
    return None


def _stripped(texts: Sequence[str]) -> frozenset[str]:
    return frozenset(text.strip() for text in texts) - {""}


def _call_ids(tool_calls: Any) -> Iterator[str]:
    for call in output_items(tool_calls):
        if isinstance(call.get("id"), str):
            yield call["id"]
