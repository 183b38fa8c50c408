"""An answer that is there already, as a reply: whole, or as a stream of its items."""

from collections.abc import AsyncIterator
from typing import Literal

from paddock.http import EventStream, ModelReply
from paddock.server.dialects.answers import Answer
from paddock.server.dialects.chat_events import ChatWriter
from paddock.server.dialects.parts import Closed, Writer
from paddock.server.dialects.replies import completion_body, response_body
from paddock.server.dialects.responses_events import ResponsesWriter
from paddock.types import JsonObject

Dialect = Literal["responses", "chat"]


def make_writer(dialect: Dialect, request: JsonObject, *, model: str) -> Writer:
    """The writer of a stream in the dialect that was asked for."""
    return ResponsesWriter(request, model=model) if dialect == "responses" else ChatWriter(request, model=model)


def body_of(dialect: Dialect, answer: Answer, request: JsonObject, *, model: str) -> JsonObject:
    """The body of a reply that is no stream."""
    return (
        response_body(answer, request, model=model) if dialect == "responses" else completion_body(answer, model=model)
    )


def whole_reply(dialect: Dialect, answer: Answer, request: JsonObject, *, model: str) -> ModelReply:
    """The reply to `request`, streamed if it asks for that."""
    if request.get("stream") is not True:
        return body_of(dialect, answer, request, model=model)
    return EventStream(_events(make_writer(dialect, request, model=model), answer))


async def _events(writer: Writer, answer: Answer) -> AsyncIterator[bytes]:
    yield writer.start()
    for index, item in enumerate(answer.output):
        yield writer.write(Closed(index, item))
    yield writer.write(answer)
