"""A model server that answers what a check says, and keeps what it was asked, byte for byte.

Law     answers are played in order; after the last one the closing answer comes, `MAX_CLOSINGS` times at most. What is
        kept was written down when it was asked: nothing that a harness does later changes it.
Errors  an answer's own `error`; RequestError `script_ended` to a harness that does not stop asking.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import orjson

from paddock.errors import PaddockError, RequestError
from paddock.http import Call, ModelReply
from paddock.server import ModelServer, ServerConfig
from paddock.server.dialects import Answer, whole_reply
from paddock.types import JsonObject, TurnRecord, Usage
from paddock.types.responses import make_response, message_item

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


class PlayedModel(ModelServer[ServerConfig]):
    """Conversations by the rollout's secret."""

    def __init__(self) -> None:
        super().__init__(ServerConfig(), name="policy", peers={})
        self.conversations: dict[str, Conversation] = {}

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        one = self.conversations[call.path["secret"]]
        one.asked.append(orjson.dumps(body))
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
        return self._answer(orjson.loads(one.said[-1]), reply, body)

    async def turns(self, secret: str) -> TurnRecord:
        return TurnRecord(engine="text", turns=[])

    async def forget(self, secret: str) -> None:
        self.conversations.pop(secret, None)

    def _answer(self, items: list[JsonObject], reply: Reply, body: JsonObject) -> ModelReply:
        if body.get("stream") is True:
            return whole_reply("responses", Answer(items, "length" if reply.cut else None), body, model=self.name)
        usage = Usage(input_tokens=10, output_tokens=reply.output_tokens)
        cut: Literal["max_output_tokens"] | None = "max_output_tokens" if reply.cut else None
        return make_response(items, body, model=self.name, usage=usage, incomplete_reason=cut)
