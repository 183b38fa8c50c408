"""A streamed answer between dialects: items that open, grow and close, then the whole answer.

Law     a reader turns an upstream's events into parts, a writer turns parts into the events of the dialect that was
        asked for; every item closes before the answer ends, and the answer comes last.
Shapes  `nth` counts output items from 0; `part` counts the content (or summary) parts of one item from 0.
"""

from typing import Literal, NamedTuple, Protocol

from paddock.server.dialects.answers import Answer
from paddock.types import JsonObject

Channel = Literal["text", "refusal", "summary", "reasoning", "arguments", "input"]


class ItemOpened(NamedTuple):
    """A new output item, still empty: its id, type, and of a call the name and call id."""

    nth: int
    item: JsonObject


class ItemDelta(NamedTuple):
    """More text of an item that is open."""

    nth: int
    channel: Channel
    text: str
    part: int = 0


class ItemClosed(NamedTuple):
    """An item, whole. It may come without having been opened."""

    nth: int
    item: JsonObject


Part = ItemOpened | ItemDelta | ItemClosed | Answer


class Writer(Protocol):
    """Turns parts into server-sent events of one dialect."""

    def start(self) -> bytes: ...

    def write(self, part: Part) -> bytes:
        """The events of one part; after an `Answer` nothing more is written."""
        ...

    def keepalive(self) -> bytes:
        """A keepalive: an event that says only that the stream lives; after `start`."""
        ...

    def fail(self, message: str, code: str) -> bytes:
        """The events that end a stream that broke."""
        ...
