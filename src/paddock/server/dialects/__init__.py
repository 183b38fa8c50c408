"""The Responses, Chat and Messages dialects: requests read, answers written. Pure functions over plain JSON.

`conversation` gives what a request holds, in one form; `error_reply` an error as the clients of a path understand it.
`Answer` is one model call's result whatever its dialect; `whole_reply` answers a request with one that is there;
`make_writer` streams parts of one that is still being made.
"""

from paddock.server.dialects.answers import Answer, Dialect, TokenCounts, Tokens
from paddock.server.dialects.canonical import chat_messages
from paddock.server.dialects.conversation import (
    Conversation,
    conversation,
    require_renderable,
)
from paddock.server.dialects.errors import CONTEXT_KIND, ErrorReply, dialect_of, error_reply, is_overlong
from paddock.server.dialects.parts import ItemClosed, ItemDelta, ItemOpened, Part, Writer
from paddock.server.dialects.replies import body_of, completion_body, message_body, response_body
from paddock.server.dialects.sse import Event, EventReader, named_event, plain_event
from paddock.server.dialects.whole import make_writer, whole_reply
from paddock.types.responses import custom_call_item, reasoning_item, with_ids

__all__ = [
    "CONTEXT_KIND",
    "Answer",
    "Conversation",
    "Dialect",
    "ErrorReply",
    "Event",
    "EventReader",
    "ItemClosed",
    "ItemDelta",
    "ItemOpened",
    "Part",
    "TokenCounts",
    "Tokens",
    "Writer",
    "body_of",
    "chat_messages",
    "completion_body",
    "conversation",
    "custom_call_item",
    "dialect_of",
    "error_reply",
    "is_overlong",
    "make_writer",
    "message_body",
    "named_event",
    "plain_event",
    "reasoning_item",
    "require_renderable",
    "response_body",
    "whole_reply",
    "with_ids",
]
