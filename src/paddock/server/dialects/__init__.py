"""The Responses and Chat dialects: reading either, writing either, whole or streamed. Pure functions over plain JSON.

`Answer` is one model call's result whatever its dialect; `whole_reply` answers a request with one that is there;
`make_writer` streams parts of one that is still being made.
"""

from paddock.server.dialects.answers import Answer, Counts, Tokens
from paddock.server.dialects.items import custom_call_item, reasoning_item, with_ids
from paddock.server.dialects.parts import Closed, Delta, Opened, Part, Writer
from paddock.server.dialects.replies import completion_body, response_body
from paddock.server.dialects.sse import Event, EventReader, named_event, plain_event
from paddock.server.dialects.whole import Dialect, body_of, make_writer, whole_reply

__all__ = [
    "Answer",
    "Closed",
    "Counts",
    "Delta",
    "Dialect",
    "Event",
    "EventReader",
    "Opened",
    "Part",
    "Tokens",
    "Writer",
    "body_of",
    "completion_body",
    "custom_call_item",
    "make_writer",
    "named_event",
    "plain_event",
    "reasoning_item",
    "response_body",
    "whole_reply",
    "with_ids",
]
