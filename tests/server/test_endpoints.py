"""Claims about calls over ASGI: the same within middleware of a server's own; nobody works for nobody."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar

import httpx
import orjson
import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paddock.http import RESPONSES, TURNS, Call, EventStream, Route
from paddock.server.access import Access
from paddock.server.app import build_app
from paddock.server.base import Handler, Server, ServerConfig
from paddock.types import JsonObject, TurnRecord

PATH = "/r/ro_1/v1/responses"


class Probe(Server[ServerConfig]):
    """Says what it was asked, waits for ever, or streams."""

    KIND: ClassVar[Any] = "models_servers"

    def __init__(self, *, layered: bool = False) -> None:
        super().__init__(ServerConfig(), name="probe", peers={})
        self.calls: list[Call] = []
        self.ended: list[str] = []
        self._layered = layered

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        return {RESPONSES: self._responses, TURNS: self._turns}

    def extend(self, app: FastAPI) -> None:
        if self._layered:
            app.add_middleware(Passing)

    async def _responses(self, body: JsonObject, call: Call) -> Any:
        self.calls.append(call)
        try:
            if body.get("wait"):
                await asyncio.Event().wait()
            if body.get("bug"):
                raise ZeroDivisionError("so")
        except asyncio.CancelledError:
            self.ended.append("call")
            raise
        return EventStream(self._events()) if body.get("stream") else {"asked": body}

    async def _turns(self, _body: JsonObject, call: Call) -> TurnRecord:
        self.calls.append(call)
        return TurnRecord(engine="text", turns=[])

    async def _events(self) -> AsyncIterator[bytes]:
        try:
            yield b"data: 1\n\n"
            await asyncio.Event().wait()
        finally:
            self.ended.append("stream")


class Passing:
    """Middleware that changes nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


@pytest.fixture(params=[False, True], ids=["plain", "middleware"])
def probe(request: pytest.FixtureRequest) -> Probe:
    return Probe(layered=request.param)


def client_of(probe: Probe, *, token: str | None = None, root_path: str = "") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(build_app(probe, access=Access(token)), root_path=root_path)
    return httpx.AsyncClient(transport=transport, base_url=f"http://probe{root_path}")


async def test_a_call_has_its_path_its_headers_and_its_body(probe: Probe) -> None:
    async with client_of(probe) as client:
        headers = [("X-Request-Id", "first"), ("x-request-id", "second"), ("Authorization", "Bearer ro_2")]
        reply = await client.post("/r/ro%201/v1/responses", json={"a": 1}, headers=headers)
        empty = await client.get("/r/ro_1/turns")
    assert (reply.status_code, reply.json()) == (200, {"asked": {"a": 1}})
    assert reply.headers["content-type"] == "application/json"
    assert empty.json() == {"engine": "text", "turns": []}
    call = probe.calls[0]
    assert (call.path, call.request_id, call.bearer) == ({"secret": "ro 1"}, "first", "ro_2")
    assert probe.calls[1].path == {"secret": "ro_1"}


@pytest.mark.parametrize(
    ("content", "kind"), [(b"{", "body_invalid"), (b"[]", "body_invalid"), (b'{"bug": 1}', "ZeroDivisionError")]
)
async def test_a_failure_is_told_as_the_clients_of_the_path_understand_it(
    probe: Probe, content: bytes, kind: str
) -> None:
    async with client_of(probe) as client:
        reply = await client.post(PATH, content=content, headers={"content-type": "application/json"})
    error = reply.json()["error"]
    assert (error["kind"], error["code"]) == (kind, kind)
    assert reply.status_code == (400 if kind == "body_invalid" else 500)


@pytest.mark.parametrize("path", ["/r//v1/responses", "/r/ro_1", "/r/ro_1/v1/responses/more", "/v1/responses", "/r"])
async def test_a_path_that_is_no_route_is_none(probe: Probe, path: str) -> None:
    async with client_of(probe) as client:
        reply = await client.post(path, json={})
    assert reply.status_code == 404
    assert probe.calls == []


async def test_a_wrong_method_is_refused_and_a_token_is_needed_everywhere(probe: Probe) -> None:
    async with client_of(probe, token="key") as client:
        for headers, status in (({}, 401), ({"authorization": "Bearer no"}, 401), ({"x-api-key": "key"}, 405)):
            assert (await client.get(PATH, headers=headers)).status_code == status
        assert (await client.post(PATH, json={})).status_code == 401
        assert (await client.post(PATH, json={}, headers={"authorization": "Bearer key"})).status_code == 200
        assert (await client.get("/healthz")).status_code == 200


async def test_an_app_below_a_path_of_another_answers_too(probe: Probe) -> None:
    async with client_of(probe, root_path="/below") as client:
        assert (await client.post(PATH, json={"a": 1})).json() == {"asked": {"a": 1}}


async def test_a_deadline_ends_the_call(probe: Probe) -> None:
    async with client_of(probe) as client:
        reply = await client.post(PATH, json={"wait": True}, headers={"x-paddock-timeout-s": "0.01"})
    assert reply.json()["error"]["kind"] == "caller_gone"
    assert probe.ended == ["call"]


class AsgiClient:
    """What an ASGI server gives and gets."""

    def __init__(self, *bodies: bytes, timeout_s: str | None = None) -> None:
        self.headers = [] if timeout_s is None else [(b"x-paddock-timeout-s", timeout_s.encode())]
        self.sent: list[Message] = []
        self.gone = asyncio.Event()
        self._bodies = list(bodies)

    async def receive(self) -> Message:
        if self._bodies:
            body = self._bodies.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(self._bodies)}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def run(self, probe: Probe) -> None:
        scope = {"type": "http", "method": "POST", "path": PATH, "query_string": b"", "state": {}}
        asgi = {"version": "3.0", "spec_version": "2.3"}
        await build_app(probe)({**scope, "headers": self.headers, "asgi": asgi}, self.receive, self.send)


async def until(ready: Any) -> None:
    async with asyncio.timeout(20):
        while not ready():
            await asyncio.sleep(0.001)


async def test_a_body_comes_in_pieces(probe: Probe) -> None:
    talk = AsgiClient(b'{"a"', b": ", b"1}")
    await talk.run(probe)
    assert orjson.loads(talk.sent[1]["body"]) == {"asked": {"a": 1}}


async def test_a_caller_that_goes_ends_its_call(probe: Probe) -> None:
    talk = AsgiClient(b'{"wait": true}')
    running = asyncio.create_task(talk.run(probe))
    await until(lambda: probe.calls)
    talk.gone.set()
    await running
    assert probe.ended == ["call"]


async def test_a_reader_that_goes_ends_its_stream(probe: Probe) -> None:
    talk = AsgiClient(b'{"stream": true}')
    running = asyncio.create_task(talk.run(probe))
    await until(lambda: len(talk.sent) == 2)
    assert dict(talk.sent[0]["headers"])[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert talk.sent[1] == {"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True}
    talk.gone.set()
    await running
    assert probe.ended == ["stream"]
    assert len(talk.sent) == 2


async def test_a_stream_that_began_in_time_goes_on_until_its_reader_goes(probe: Probe) -> None:
    talk = AsgiClient(b'{"stream": true}', timeout_s="0.1")
    running = asyncio.create_task(talk.run(probe))
    await until(lambda: len(talk.sent) == 2)
    await asyncio.sleep(0.3)
    assert (running.done(), probe.ended) == (False, [])
    talk.gone.set()
    await running
    assert probe.ended == ["stream"]


@pytest.mark.parametrize("body", [b'{"wait": true}', b'{"stream": true}'])
async def test_a_cancellation_from_outside_stays_one(probe: Probe, body: bytes) -> None:
    talk = AsgiClient(body)
    running = asyncio.create_task(talk.run(probe))
    await until(lambda: probe.calls and (talk.sent or b"wait" in body))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(probe.ended) == 1
