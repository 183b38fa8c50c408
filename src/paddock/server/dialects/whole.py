"""An answer that is there already, as a reply: whole, or as a stream of its items."""

from collections.abc import AsyncIterator

from paddock.http import EventStream, ModelReply
from paddock.server.dialects.answers import Answer, Dialect
from paddock.server.dialects.chat_events import ChatWriter
from paddock.server.dialects.messages_events import MessagesWriter
from paddock.server.dialects.parts import ItemClosed, Writer
from paddock.server.dialects.replies import body_of
from paddock.server.dialects.responses_events import ResponsesWriter
from paddock.types import JsonObject


def make_writer(dialect: Dialect, request: JsonObject, *, model: str, handle: str | None = None) -> Writer:
    """The writer of a stream in the dialect that was asked for. `handle`: the answer's, which is to be."""
    if dialect == "messages":
        return MessagesWriter(model=model, handle=handle)
    if dialect == "chat":
        return ChatWriter(request, model=model)
    return ResponsesWriter(request, model=model, handle=handle)


def whole_reply(dialect: Dialect, answer: Answer, request: JsonObject, *, model: str) -> ModelReply:
    """The reply to `request`, streamed if it asks for that."""
    if request.get("stream") is not True:
        return body_of(dialect, answer, request, model=model)
    return EventStream(_events(make_writer(dialect, request, model=model, handle=answer.handle), answer))


async def _events(writer: Writer, answer: Answer) -> AsyncIterator[bytes]:
    yield writer.start()
    for index, item in enumerate(answer.output):
        yield writer.write(ItemClosed(index, item))
    yield writer.write(answer)
