"""A model server that plays a scripted conversation, and records its requests byte for byte.

Law     answers are played in order; after the last one the closing answer comes, `MAX_CLOSINGS` times at most. A
        request is recorded when it arrives: nothing that a harness does later changes the record.
Errors  an answer's own `error`; RequestError `script_ended` to a harness that does not stop asking.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from paddock.errors import PaddockError, RequestError
from paddock.server.dialects import Answer, ItemClosed, TokenCounts, with_ids
from paddock.server.exchange import Batch
from paddock.server.recording_server import PendingCall, RecordingConfig, RecordingServer
from paddock.types import Engine, FinishReason, JsonObject
from paddock.types.responses import calls, message_item

MAX_CLOSINGS = 20
LAST_WORDS = "Done."
"""Text of the closing answer."""
OUTPUT_TOKENS = 2
"""Output tokens of an answer, by default."""
Items = Sequence[JsonObject]


class ScriptedReply(NamedTuple):
    """One answer of the model."""

    items: Items = ()
    cut: bool = False
    """Whether the answer was cut at its token limit."""
    output_tokens: int = OUTPUT_TOKENS
    delay_s: float = 0.0
    before: Callable[[], Awaitable[object]] | None = None
    """Called between the request and its answer."""
    error: PaddockError | None = None
    """Raised in place of an answer."""


@dataclass
class ScriptedConversation:
    """One rollout: the answers to give, and the requests that came."""

    replies: list[ScriptedReply]
    closing: ScriptedReply = field(default_factory=lambda: ScriptedReply([message_item(LAST_WORDS)]))
    bodies: list[bytes] = field(default_factory=list)
    """Bodies of the requests."""
    answers: list[bytes] = field(default_factory=list)
    """Items of the answers that were given, as JSON."""
    abandoned: int = 0
    """Requests whose client went away before the answer came."""
    on_request: Callable[[], None] = lambda: None
    """Called with each request."""

    def next(self) -> ScriptedReply:
        turn = len(self.bodies) - 1
        if turn >= len(self.replies) + MAX_CLOSINGS:
            raise RequestError(f"scripted: {turn} answers are enough", kind="script_ended")
        return self.replies[turn] if turn < len(self.replies) else self.closing


class ConversationServer(RecordingServer[RecordingConfig]):
    """Plays one conversation per rollout, by the rollout's secret."""

    def __init__(self) -> None:
        # A client that went away does not come back for its answer.
        super().__init__(RecordingConfig(orphan_grace_s=0.0), name="policy", peers={})
        self.conversations: dict[str, ScriptedConversation] = {}

    @property
    def engine_kind(self) -> Engine:
        return "text"

    @property
    def model_name(self) -> str:
        return self.name

    async def forget(self, secret: str) -> None:
        await super().forget(secret)
        self.conversations.pop(secret, None)

    async def sample(self, pending: PendingCall) -> AsyncGenerator[Batch, None]:
        conversation = self.conversations[pending.secret or ""]
        conversation.bodies.append(orjson.dumps(_in_responses(pending)))
        conversation.on_request()
        reply = conversation.next()
        try:
            if reply.before is not None:
                await reply.before()
            await asyncio.sleep(reply.delay_s)
        except asyncio.CancelledError:
            conversation.abandoned += 1
            raise
        if reply.error is not None:
            raise reply.error
        conversation.answers.append(orjson.dumps(list(reply.items)))
        output = orjson.loads(conversation.answers[-1])
        if pending.request.get("stream") is True:
            output = [with_ids(item) for item in output]  # events name their items
        reason: FinishReason = "length" if reply.cut else "tool_calls" if calls(output) else "stop"
        closed = [ItemClosed(nth, item) for nth, item in enumerate(output)]
        yield [*closed, Answer(output, reason, TokenCounts(10, reply.output_tokens))]


def _in_responses(pending: PendingCall) -> JsonObject:
    """The request as a client of the Responses API would have made it."""
    if pending.dialect == "responses":
        return pending.request
    parsed = pending.conversation
    tools = [{"type": "function", **tool["function"]} for tool in parsed.tools]
    return {"model": pending.request.get("model"), "input": parsed.items, "tools": tools}
