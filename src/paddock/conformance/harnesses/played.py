"""A model server that answers what a check says, and keeps what it was asked, byte for byte.

Law     answers are played in order; after the last one the closing answer comes, `MAX_CLOSINGS` times at most. What is
        kept was written down when it was asked: nothing that a harness does later changes it.
Errors  an answer's own `error`; RequestError `script_ended` to a harness that does not stop pending.
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
"""Of the closing answer."""
OUTPUT_TOKENS = 2
"""Of an answer that does not say."""
Items = Sequence[JsonObject]


class Reply(NamedTuple):
    """One answer of the model."""

    items: Items = ()
    cut: bool = False
    """It ended at its limit."""
    output_tokens: int = OUTPUT_TOKENS
    delay_s: float = 0.0
    before: Callable[[], Awaitable[object]] | None = None
    """What happens between the request and its answer."""
    error: PaddockError | None = None
    """Raised in place of an answer."""


@dataclass
class Conversation:
    """One rollout: what is said in it, and what was asked."""

    replies: list[Reply]
    closing: Reply = field(default_factory=lambda: Reply([message_item(LAST_WORDS)]))
    asked: list[bytes] = field(default_factory=list)
    """Bodies of requests."""
    said: list[bytes] = field(default_factory=list)
    """Items of the answers that were given."""
    left: int = 0
    """Requests whose asker went away before the answer came."""
    arrived: Callable[[], None] = lambda: None
    """Called with each request."""

    def next(self) -> Reply:
        turn = len(self.asked) - 1
        if turn >= len(self.replies) + MAX_CLOSINGS:
            raise RequestError(f"scripted: {turn} answers are enough", kind="script_ended")
        return self.replies[turn] if turn < len(self.replies) else self.closing


class PlayedModel(RecordingServer[RecordingConfig]):
    """Conversations by the rollout's secret."""

    def __init__(self) -> None:
        # Whoever leaves has left: nobody comes back for an answer.
        super().__init__(RecordingConfig(orphan_grace_s=0.0), name="policy", peers={})
        self.conversations: dict[str, Conversation] = {}

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
        one = self.conversations[pending.secret or ""]
        one.asked.append(orjson.dumps(_in_responses(pending)))
        one.arrived()
        reply = one.next()
        try:
            if reply.before is not None:
                await reply.before()
            await asyncio.sleep(reply.delay_s)
        except asyncio.CancelledError:
            one.left += 1
            raise
        if reply.error is not None:
            raise reply.error
        one.said.append(orjson.dumps(list(reply.items)))
        output = orjson.loads(one.said[-1])
        if pending.request.get("stream") is True:
            output = [with_ids(item) for item in output]  # events name their items
        reason: FinishReason = "length" if reply.cut else "tool_calls" if calls(output) else "stop"
        closed = [ItemClosed(nth, item) for nth, item in enumerate(output)]
        yield [*closed, Answer(output, reason, TokenCounts(10, reply.output_tokens))]


def _in_responses(pending: PendingCall) -> JsonObject:
    """The request as a client of the Responses API would have made it."""
    if pending.dialect == "responses":
        return pending.request
    told = pending.conversation
    tools = [{"type": "function", **tool["function"]} for tool in told.tools]
    return {"model": pending.request.get("model"), "input": told.items, "tools": tools}
