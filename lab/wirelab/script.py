"""The scripted upstream of the wire lab: answers a program's calls with the turns of a scenario, in its dialect.

Law     turns are played in order, one per call that reaches the model, then the closing one; who asks on after
        `MAX_CLOSINGS` of these is refused. Answers that were given whole are the transcript (`summaries`).
Faults  are what a real model server sends: the dialect's own error bodies, events and status codes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import orjson

from paddock.errors import RequestError
from paddock.http import TRANSCRIPT, Call, DirectPeer, EventStream, Peer
from paddock.lab.wirelab.scenarios import ScriptedTurn
from paddock.sandbox.tunnel import ModelRequest, UpstreamAnswer
from paddock.server import dialects
from paddock.server.dialects import (
    CONTEXT_KIND,
    Dialect,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    dialect_of,
    error_reply,
    make_writer,
)
from paddock.types import FinishReason, JsonObject, TurnSummaries, TurnSummary, TurnSummaryQuery
from paddock.types.responses import calls

MODEL = "policy"
MAX_CLOSINGS = 10
SAMPLED_TOKENS = 5
RETRY_AFTER_S = 1
_JSON = {"content-type": "application/json"}
_EVENTS = {"content-type": "text/event-stream"}


class WireScript:
    """The upstream of one run, and the transcript that a harness asks for."""

    def __init__(self, turns: Sequence[ScriptedTurn], closing_turn: Callable[[int], ScriptedTurn]) -> None:
        """`closing_turn`: what is said after them, by the number of the call."""
        self.summaries: list[TurnSummary] = []
        self.hangs = asyncio.Event()
        """Set while a call waits for an answer that will not come."""
        self._turns = turns
        self._closing_turn = closing_turn
        self._calls = 0

    @property
    def peer(self) -> Peer:
        """The run's model server, which is asked for the transcript."""
        return DirectPeer(MODEL, lambda: {TRANSCRIPT: self._transcript})

    async def _transcript(self, query: TurnSummaryQuery, _call: Call) -> TurnSummaries:
        return TurnSummaries(turns=self.summaries[query.skip :])

    @asynccontextmanager
    async def __call__(self, request: ModelRequest) -> AsyncIterator[UpstreamAnswer]:
        dialect = dialect_of(request.path)
        if dialect is None:
            yield _whole(200, {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "lab"}]})
            return
        number, self._calls = self._calls, self._calls + 1
        if number >= len(self._turns) + MAX_CLOSINGS:
            yield _error(request.path, "lab: this goes on for too long", "script_ended", 400)
            return
        turn = self._turns[number] if number < len(self._turns) else self._closing_turn(number)
        if turn.fault == "hang":
            self.hangs.set()
            await asyncio.Event().wait()
        yield self._answer(dialect, request, turn)

    def _answer(self, dialect: Dialect, request: ModelRequest, turn: ScriptedTurn) -> UpstreamAnswer:
        body = orjson.loads(request.body)
        if turn.fault == "rate":
            limited = _error(request.path, "lab: slow down", "rate_limit_exceeded", 429, retryable=True)
            return limited._replace(headers={**limited.headers, "retry-after": str(RETRY_AFTER_S)})
        if turn.fault == "server":
            return _error(request.path, "lab: out of order", "server_error", 500, retryable=True)
        if turn.fault == "overflow":
            words = "This model's maximum context length is 9 tokens, however you requested 10 tokens"
            return _error(request.path, words, CONTEXT_KIND, 400)
        if turn.fault in ("cut", "failed"):
            return _half(dialect, body, turn)
        return self._whole_answer(dialect, body, turn)

    def _whole_answer(self, dialect: Dialect, body: JsonObject, turn: ScriptedTurn) -> UpstreamAnswer:
        handle = f"handle_lab{len(self.summaries) + 1}"
        reason: FinishReason = "length" if turn.fault == "limit" else "tool_calls" if calls(turn.items) else "stop"
        counts = dialects.TokenCounts(turn.used_tokens - SAMPLED_TOKENS, SAMPLED_TOKENS)
        answer = dialects.Answer(list(turn.items), reason, counts, model=MODEL, handle=handle)
        self.summaries.append(
            TurnSummary(
                id=handle, parent=None, finish_reason=reason, output=answer.output, sampled_tokens=SAMPLED_TOKENS
            )
        )
        reply = dialects.whole_reply(dialect, answer, body, model=MODEL)
        return UpstreamAnswer(200, _EVENTS, reply.events) if isinstance(reply, EventStream) else _whole(200, reply)


def _half(dialect: Dialect, body: JsonObject, turn: ScriptedTurn) -> UpstreamAnswer:
    """All items but the last, and of that its beginning; then the fault."""
    *before, last = turn.items
    if body.get("stream") is not True:
        return UpstreamAnswer(200, _JSON, _cut_stream(b'{"id": "resp_lab", "output": ['))
    writer = make_writer(dialect, body, model=MODEL)
    parts = [
        writer.start(),
        *(writer.write(ItemClosed(nth, item)) for nth, item in enumerate(before)),
        writer.write(ItemOpened(len(before), last)),
        writer.write(ItemDelta(len(before), "arguments", str(last.get("arguments"))[:6])),
    ]
    if turn.fault == "cut":
        return UpstreamAnswer(200, _EVENTS, _cut_stream(*parts))
    return UpstreamAnswer(200, _EVENTS, _parts(*parts, writer.fail("lab: it failed", "server_error")))


def _error(path: str, message: str, kind: str, status: int, *, retryable: bool = False) -> UpstreamAnswer:
    reply = error_reply(path, RequestError(message, kind=kind, retryable=retryable), status)
    return _whole(reply.status, reply.body, reply.headers)


def _whole(status: int, body: JsonObject, headers: dict[str, str] | None = None) -> UpstreamAnswer:
    return UpstreamAnswer(status, {**_JSON, **(headers or {})}, _parts(orjson.dumps(body)))


async def _parts(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def _cut_stream(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
    await asyncio.sleep(0.2)  # the client has read it before it is cut
    raise ConnectionError("lab: cut")
