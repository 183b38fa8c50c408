"""Engine functions of another process: a worker's exact servers have their driver sample.

Driver  has one `FunctionEngine` for each server, and so one state of pause and weights for all workers (`EngineCalls`).
Worker  `use_relay` puts a `RelayedEngine` in the place of each function of its process.
Wire    heads that are JSON, and bytes: ids of 32 bits, log-probs of 64, in the byte order of both
        machines, then rows of routed experts.
Errors  those of the driver's engine, as they are; `upstream_unreadable` for an id that has more than 32 bits.
"""

import asyncio
from array import array
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from itertools import count
from typing import NamedTuple

from paddock.errors import BugError, InfraError, PaddockError, from_wire
from paddock.http import Call
from paddock.server.exact.engine import Chunk
from paddock.server.exact.functions import FunctionEngine
from paddock.types import JsonObject, RoutedExperts, WeightSpan

_IDS = "I"


class RelayMessage(NamedTuple):
    """One message, either way."""

    head: JsonObject
    body: bytes = b""


Send = Callable[[RelayMessage], Awaitable[None]]


class EngineRelay:
    """A worker's side: the calls that wait for the driver's answers."""

    def __init__(self) -> None:
        self._send: Send | None = None
        self._attached = asyncio.Event()
        self._numbers = count()
        self._chunks: dict[int, asyncio.Queue[Chunk | PaddockError]] = {}

    async def serve(self, send: Send) -> None:
        """Pass calls on by `send` until this is cancelled."""
        self._send = send
        self._attached.set()
        try:
            await asyncio.Future()
        finally:
            self._attached.clear()

    def take(self, message: RelayMessage) -> None:
        """An answer of the driver's, or a part of one."""
        head = message.head
        chunks = self._chunks.get(head["answer"])
        if chunks is not None:  # else nobody waits for it any more
            chunks.put_nowait(from_wire(500, head["error"]) if "error" in head else read_chunk(message))

    async def call(
        self, server: str, ids: Sequence[int], params: JsonObject, call: Call, *, rollout: str | None, stream: bool
    ) -> AsyncGenerator[Chunk, None]:
        number = next(self._numbers)
        chunks = self._chunks[number] = asyncio.Queue()
        asks = {"server": server, "params": params, "rollout": rollout, "stream": stream}
        ended = False
        try:
            await self._attached.wait()
            head = {"call": number, "remaining_s": call.remaining_s, **asks}
            await self._tell(RelayMessage(head, array(_IDS, ids).tobytes()))
            while not ended:
                chunk = await chunks.get()
                ended = isinstance(chunk, PaddockError) or chunk.finish_reason is not None
                if isinstance(chunk, PaddockError):
                    raise chunk
                yield chunk
        finally:
            del self._chunks[number]
            if not ended and self._attached.is_set():
                await self._tell(RelayMessage({"drop": number}))

    async def _tell(self, message: RelayMessage) -> None:
        if self._send is not None:
            await self._send(message)


class RelayedEngine:
    """The engine of one server, as `paddock.server.exact.TokenEngine`."""

    def __init__(self, relay: EngineRelay, server: str, *, max_tokens: int | None) -> None:
        self._relay = relay
        self._server = server
        self._max_tokens = max_tokens

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    @property
    def max_tokens(self) -> int | None:
        return self._max_tokens

    def generate(
        self, prompt_ids: Sequence[int], params: JsonObject, call: Call, *, rollout: str | None, stream: bool = True
    ) -> AsyncGenerator[Chunk, None]:
        return self._relay.call(self._server, prompt_ids, params, call, rollout=rollout, stream=stream)


class EngineCalls:
    """The driver's side, for one worker: what it asks of engines. `send` raises ConnectionError where it is gone."""

    def __init__(self, engines: Mapping[str, FunctionEngine], send: Send) -> None:
        self._engines = engines
        self._send = send
        self._running: dict[int, asyncio.Task[None]] = {}

    def take(self, message: RelayMessage) -> None:
        """A call, or the end of one."""
        if (number := message.head.get("drop")) is not None:
            if (task := self._running.get(number)) is not None:
                task.cancel()
            return
        number = message.head["call"]
        self._running[number] = task = asyncio.create_task(self._answer(number, message))
        task.add_done_callback(lambda _: self._running.pop(number))

    async def close(self) -> None:
        """The worker is gone: end its calls."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, number: int, message: RelayMessage) -> None:
        head = message.head
        with suppress(ConnectionError):
            try:
                engine, remaining_s = self._engines[head["server"]], head["remaining_s"]
                call = Call() if remaining_s is None else Call().within(remaining_s)
                prompt_ids = array(_IDS, message.body).tolist()
                chunks = engine.generate(
                    prompt_ids, head["params"], call, rollout=head["rollout"], stream=head["stream"]
                )
                async with aclosing(chunks):
                    async for chunk in chunks:
                        await self._send(chunk_message(number, chunk))
            except PaddockError as error:
                await self._send(RelayMessage({"answer": number, "error": error.to_wire()}))
            except ConnectionError:
                raise
            except Exception as error:  # noqa: BLE001 - the worker waits for an answer
                bug = BugError(f"its relay: {type(error).__name__}: {error}", kind=type(error).__name__)
                await self._send(RelayMessage({"answer": number, "error": bug.to_wire()}))


_relay: EngineRelay | None = None


@contextmanager
def use_relay(relay: EngineRelay) -> Iterator[None]:
    """Have the driver call the engine functions of servers that start in the block."""
    global _relay  # noqa: PLW0603 - a worker process has one driver
    before, _relay = _relay, relay
    try:
        yield
    finally:
        _relay = before


def relay_in_use() -> EngineRelay | None:
    """What engine functions of this process are called by; None: this process itself calls them."""
    return _relay


def chunk_message(number: int, chunk: Chunk) -> RelayMessage:
    try:
        ids = array(_IDS, chunk.ids).tobytes()
    except OverflowError as error:
        text = "the engine function: one of its ids has more than 32 bits"
        raise InfraError(text, kind="upstream_unreadable", stage="model") from error
    head: JsonObject = {"answer": number, "n": len(chunk.ids)}
    if chunk.finish_reason is not None:
        versions = [span.model_dump() for span in chunk.versions]
        head |= {"finish_reason": chunk.finish_reason, "versions": versions, "cached_tokens": chunk.cached_tokens}
    body = ids + array("d", chunk.log_probs).tobytes()
    if chunk.routed_experts is not None:
        head["experts"] = {key: value for key, value in chunk.routed_experts._asdict().items() if key != "data"}
        body += chunk.routed_experts.data
    return RelayMessage(head, body)


def read_chunk(message: RelayMessage) -> Chunk:
    head = message.head
    ids: array[int] = array(_IDS)
    log_probs: array[float] = array("d")
    split = head["n"] * ids.itemsize
    end = split + head["n"] * log_probs.itemsize
    ids.frombytes(message.body[:split])
    log_probs.frombytes(message.body[split:end])
    shape = head.get("experts")
    versions = [WeightSpan.model_validate(span) for span in head.get("versions", ())]
    return Chunk(
        ids.tolist(),
        log_probs.tolist(),
        head.get("finish_reason"),
        versions,
        head.get("cached_tokens", 0),
        RoutedExperts(**shape, data=message.body[end:]) if shape is not None else None,
    )
