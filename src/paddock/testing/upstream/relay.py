"""A relay before a running engine, which passes on what comes and fails on cue: a real engine under scripted faults.

    async with FaultyRelay("http://127.0.0.1:30000", faults=first(2, ErrorStatus(500))) as relay:
        relay.arm()
        ... relay.url, relay.calls

Law     generations alone fail and are counted, from 0, and only once it is armed: a server's checks at its start pass.
        What the client closes is closed at the engine, too.
"""

import asyncio
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from paddock.testing.upstream.faults import ErrorStatus, Fault, Faults

GENERATIONS = ("/generate", "/completions", "/responses")
"""Ends of the paths at which an engine samples."""
_HOP = {"host", "content-length", "transfer-encoding", "connection", "content-encoding"}


class FaultyRelay:
    """Listens while it is open as an async context manager."""

    def __init__(self, root: str, *, faults: Faults | None = None, event_delay_s: float = 0.0) -> None:
        """`root`: URL of the engine, without `/v1`. `event_delay_s`: before each part of an answer."""
        self.url = ""
        self.calls = 0
        self._root = root.rstrip("/")
        self._faults = faults
        self._event_delay_s = event_delay_s
        self._armed = False
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    def arm(self) -> None:
        """Count and fail from now on."""
        self._armed = True

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        fault: Fault | None = None
        if self._armed and request.path.endswith(GENERATIONS):
            fault = self._faults(self.calls) if self._faults is not None else None
            self.calls += 1
        if fault is not None and fault != "half_body":
            return await _failed(request, fault)
        assert self._session is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        asked = self._session.request(
            request.method, self._root + request.path_qs, data=await request.read(), headers=headers
        )
        async with asked as given:
            kept = {name: value for name, value in given.headers.items() if name.lower() not in _HOP}
            answer = web.StreamResponse(status=given.status, headers=kept)
            await answer.prepare(request)
            async for part in given.content.iter_any():
                await asyncio.sleep(self._event_delay_s)
                if fault is not None:
                    await answer.write(part[: len(part) // 2])
                    _drop(request)
                    break
                await answer.write(part)
            return answer


async def _failed(request: web.Request, fault: Fault) -> web.StreamResponse:
    if fault == "hang":
        await asyncio.sleep(3600)
    if fault == "drop":
        _drop(request)
    if isinstance(fault, ErrorStatus):
        error = {"message": fault.message, "code": fault.error_code}
        headers = {} if fault.retry_after_s is None else {"retry-after": str(fault.retry_after_s)}
        return web.json_response({"error": error}, status=fault.code, headers=headers)
    if fault == "engine_error":
        return web.json_response({"error": {"message": "scripted failure", "code": 500}})
    body = '{"hello": "world"}' if fault == "not_an_answer" else "<html>no JSON</html>"
    return web.Response(text=body, content_type="application/json")


def _drop(request: web.Request) -> None:
    """Close the connection, in whatever state its answer is."""
    if request.transport is not None:
        request.transport.abort()
