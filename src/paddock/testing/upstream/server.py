"""The scripted server itself: one asyncio protocol over httptools, so that a benchmark measures its client.

Law     calls are numbered from 0 in the order in which they arrive whole, over both dialects.
        Closing it closes every connection.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httptools
import orjson

from paddock.testing.upstream import chat, responses
from paddock.testing.upstream.answer import ScriptedAnswer
from paddock.testing.upstream.faults import ErrorStatus, Fault, Faults
from paddock.types import JsonObject

Reply = ScriptedAnswer | Callable[[JsonObject, int], ScriptedAnswer]
"""One answer to all calls, or a function of the body and the call's number."""
_MARK = "@0@mark@0@"


class ScriptedUpstream:
    """Listens while it is open as an async context manager."""

    def __init__(
        self,
        reply: Reply = ScriptedAnswer("ok"),  # noqa: B008 - frozen
        *,
        faults: Faults | None = None,
        delay_s: float = 0.0,
        event_delay_s: float = 0.0,
        api_key: str | None = None,
        answer_headers: Mapping[str, str] | None = None,
        models: Sequence[str] = ("policy", "scripted"),
        keep_bodies: bool = False,
        port: int = 0,
    ) -> None:
        self.reply = reply
        self.faults = faults
        self.delay_s = delay_s
        """Before each answer."""
        self.event_delay_s = event_delay_s
        """Before each event of a stream."""
        self.api_key = api_key
        """Whoever brings another gets 401; None: nobody needs one."""
        self.extra_head = "".join(f"{name}: {value}\r\n" for name, value in (answer_headers or {}).items())
        self.models = models
        """What `GET /v1/models` lists; that is no call. None there: it has no such path."""
        self.keep_bodies = keep_bodies
        self.port = port
        self.calls = 0
        self.bodies: list[JsonObject] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        """Headers of the kept bodies; names in lower case."""
        self.n_cancelled = 0
        """Calls whose client was gone before the answer was."""
        self.in_flight = 0
        self.most_in_flight = 0
        self._fixed: dict[str, bytes] = {}
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The base URL, with `/v1`."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", self.port, backlog=2048)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for connection in list(self._connections):
            connection.abort()
        await self._server.wait_closed()

    def answer_to(self, body: JsonObject, nth: int) -> ScriptedAnswer:
        return self.reply if isinstance(self.reply, ScriptedAnswer) else self.reply(body, nth)

    def whole(self, path: str, body: JsonObject, nth: int) -> bytes:
        """The body of an answer; that of a fixed reply is rendered once."""
        render = chat.completion if path.endswith("/chat/completions") else responses.response
        mark = f"{nth:010x}"
        if not isinstance(self.reply, ScriptedAnswer) or body.get("return_token_ids") or body.get("tools"):
            return orjson.dumps(render(self.answer_to(body, nth), body, mark))
        if path not in self._fixed:
            self._fixed[path] = orjson.dumps(render(self.reply, {}, _MARK))
        return self._fixed[path].replace(_MARK.encode(), mark.encode())


class _Connection(asyncio.Protocol):
    def __init__(self, upstream: ScriptedUpstream) -> None:
        self._upstream = upstream
        self._transport: Any = None
        self._parser = httptools.HttpRequestParser(self)
        self._task: asyncio.Task[None] | None = None
        self._path = ""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._upstream._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._upstream._connections.discard(self)
        if self._task is not None and not self._task.done():
            self._upstream.n_cancelled += 1
            self._task.cancel()

    def abort(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()

    def on_message_begin(self) -> None:
        self._path, self._headers, self._body = "", {}, []

    def on_url(self, url: bytes) -> None:
        self._path += url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        upstream = self._upstream
        if self._path.endswith("/models") and upstream.models:
            refused = self._refused_key()
            if refused is not None:
                self._fail(refused, {}, 0)
                return
            self._write(200, orjson.dumps({"object": "list", "data": [{"id": name} for name in upstream.models]}))
            return
        nth = upstream.calls
        upstream.calls += 1
        body = orjson.loads(b"".join(self._body) or b"{}")
        if upstream.keep_bodies:
            upstream.bodies.append(body)
            upstream.paths.append(self._path)
            upstream.headers.append(self._headers)
        fault = self._fault(nth)
        if fault is None and not upstream.delay_s and not body.get("stream"):
            self._write(200, upstream.whole(self._path, body, nth))
            return
        self._task = asyncio.get_running_loop().create_task(self._answer(body, nth, fault))

    def _fault(self, nth: int) -> Fault | None:
        upstream = self._upstream
        if (refused := self._refused_key()) is not None:
            return refused
        if not self._path.endswith(("/chat/completions", "/responses")):
            return ErrorStatus(404, f"no such path: {self._path}")
        return upstream.faults(nth) if upstream.faults else None

    def _refused_key(self) -> ErrorStatus | None:
        given = self._headers.get("authorization")
        if not self._upstream.api_key or given == f"Bearer {self._upstream.api_key}":
            return None
        return ErrorStatus(401, f"Incorrect API key provided: {given}", "invalid_api_key")

    async def _answer(self, body: JsonObject, nth: int, fault: Fault | None) -> None:
        upstream = self._upstream
        upstream.in_flight += 1
        upstream.most_in_flight = max(upstream.most_in_flight, upstream.in_flight)
        try:
            await asyncio.sleep(upstream.delay_s)
            if fault == "hang":
                await asyncio.Event().wait()
            elif fault is not None and not (fault in ("half_body", "engine_error") and body.get("stream")):
                self._fail(fault, body, nth)
            elif body.get("stream"):
                await self._stream(self._events(body, nth), fault)
            else:
                self._write(200, upstream.whole(self._path, body, nth))
        finally:
            upstream.in_flight -= 1

    def _events(self, body: JsonObject, nth: int) -> Iterator[bytes]:
        render = chat.chunks if self._path.endswith("/chat/completions") else responses.events
        return render(self._upstream.answer_to(body, nth), body, f"{nth:010x}")

    async def _stream(self, events: Iterator[bytes], fault: Fault | None) -> None:
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
        self._transport.write(f"{head}{self._upstream.extra_head}\r\n".encode())
        all_events = list(events)
        for event in all_events[: len(all_events) // 2] if fault else all_events:
            if self._upstream.event_delay_s:
                await asyncio.sleep(self._upstream.event_delay_s)
            self._transport.write(b"%x\r\n%s\r\n" % (len(event), event))
        if fault == "half_body":
            self._transport.close()
            return
        if fault == "engine_error":
            event = b'data: {"type": "error", "error": {"message": "the engine died", "code": 500}}\n\n'
            self._transport.write(b"%x\r\n%s\r\n" % (len(event), event))
        self._transport.write(b"0\r\n\r\n")

    def _fail(self, fault: Fault, body: JsonObject, nth: int) -> None:
        if isinstance(fault, ErrorStatus):
            error = {"message": fault.message, "type": "scripted", "code": fault.error_code}
            retry = "" if fault.retry_after_s is None else f"retry-after: {fault.retry_after_s:g}\r\n"
            self._write(fault.code, orjson.dumps({"error": error}), retry)
        elif fault == "drop":
            self._transport.abort()
        elif fault == "half_body":
            whole = self._upstream.whole(self._path, body, nth)
            self._transport.write(_head(200, len(whole), "") + whole[: len(whole) // 2])
            self._transport.close()
        elif fault == "not_json":
            self._write(200, b"<html>busy</html>")
        elif fault == "not_an_answer":
            self._write(200, b'{"detail": "ok"}')
        else:
            self._write(200, b'{"error": {"message": "the engine died", "code": 500}, "status": "failed"}')

    def _write(self, status: int, body: bytes, extra: str = "") -> None:
        self._transport.write(_head(status, len(body), extra + self._upstream.extra_head) + body)


def _head(status: int, length: int, extra: str) -> bytes:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{extra}\r\n"
    return head.encode()
