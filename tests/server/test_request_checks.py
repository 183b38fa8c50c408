"""Claims about servers without a token, over real sockets: their own clients are answered, pages of others are not."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from starlette.types import Message

from paddock.http import RESPONSES, EventStream, HttpPeer, Route
from paddock.http.transport import make_client
from paddock.server.app import build_app
from paddock.server.base import Handler, Server, ServerConfig
from paddock.server.http_server import HttpServer
from paddock.server.request_checks import LocalRequests
from paddock.testing import over

PATH = "/r/ro_1/v1/responses"


class Streaming(Server[ServerConfig]):
    """Answers whole or as a stream, and counts what reached it."""

    KIND: ClassVar[Any] = "models_servers"

    def __init__(self) -> None:
        super().__init__(ServerConfig(), name="streaming", peers={})
        self.calls = 0

    def handlers(self) -> Mapping[Route[Any, Any], Handler]:
        return {RESPONSES: self._responses}

    async def _responses(self, body: Any, _call: Any) -> Any:
        self.calls += 1
        return EventStream(self._events()) if body.get("stream") else {"asked": body}

    async def _events(self) -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"


class Reached:
    """A served app, asked under any name."""

    def __init__(self, server: Streaming, url: str, client: httpx.AsyncClient) -> None:
        self.server = server
        self.url = url
        self.port = url.rpartition(":")[2]
        self._client = client

    async def ask(self, path: str = PATH, method: str = "POST", **headers: str) -> httpx.Response:
        named = {name: value.replace("PORT", self.port) for name, value in headers.items()}
        given = {"content-type": "application/json", **named}
        return await self._client.request(method, self.url + path, content=b'{"stream": true}', headers=given)


@pytest.fixture(params=[None, "open sesame"])
async def reached(request: pytest.FixtureRequest) -> AsyncIterator[Reached]:
    server = Streaming()
    async with over("http", server, token=request.param) as peers, make_client() as client:
        peer = peers["streaming"]
        assert isinstance(peer, HttpPeer)
        yield Reached(server, peer.base_url, client)


without_token = pytest.mark.parametrize("reached", [None], indirect=True)
with_token = pytest.mark.parametrize("reached", ["open sesame"], indirect=True)


@without_token
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "127.0.0.1"},
        {"host": "localhost:PORT"},
        {"host": "LOCALHOST"},
        {"host": "127.8.8.8:1"},
        {"host": "[::1]:PORT"},
        {"host": "192.0.2.7:80"},
        {"host": "localhost:PORT", "origin": "http://localhost:PORT"},
        {"origin": "http://127.0.0.1:PORT"},
    ],
)
async def test_a_local_client_is_answered(reached: Reached, headers: dict[str, str]) -> None:
    reply = await reached.ask(**headers)
    assert (reply.status_code, reply.text) == (200, "data: 1\n\n")
    assert not [name for name in reply.headers if name.startswith("access-control")]


@without_token
@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"host": "rebound.example:PORT"}, "host_refused"),
        ({"host": "127.0.0.1.example"}, "host_refused"),
        ({"host": "localhost.example"}, "host_refused"),
        ({"host": "user@127.0.0.1"}, "host_refused"),
        ({"host": "127.0.0.1:99999"}, "host_refused"),
        ({"host": ""}, "host_refused"),
        ({"host": "0177.0.0.1"}, "host_refused"),
        ({"host": "[::1"}, "host_refused"),
        ({"origin": "http://HOST.example"}, "origin_refused"),
        ({"origin": "http://page.example"}, "origin_refused"),
        ({"origin": "null"}, "origin_refused"),
        ({"origin": "http://127.0.0.1:1"}, "origin_refused"),
        ({"origin": "http://localhost:PORT"}, "origin_refused"),
        ({"host": "rebound.example", "origin": "http://rebound.example"}, "host_refused"),
    ],
)
async def test_a_page_of_another_site_is_refused_with_the_reason(
    reached: Reached, headers: dict[str, str], kind: str
) -> None:
    named = (headers.get("host") or headers.get("origin") or "Host").replace("PORT", reached.port)
    for path in (PATH, "/", "/healthz", "/openapi.json", "/nowhere"):
        reply = await reached.ask(path, "POST" if path == PATH else "GET", **headers)
        error = reply.json()["error"]
        assert (path, reply.status_code, error["owner"], error["kind"]) == (path, 403, "user", kind)
        assert named in error["message"], path
        assert reached.server.calls == 0, path
        assert not [name for name in reply.headers if name.startswith("access-control")], path


@without_token
async def test_a_browser_asks_in_vain_whether_it_may(reached: Reached) -> None:
    asked = {"origin": "http://page.example", "access-control-request-method": "POST"}
    assert (await reached.ask(method="OPTIONS", **asked)).status_code == 403


@without_token
async def test_two_hosts_are_none(reached: Reached) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(reached.port))
    writer.write(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: rebound.example\r\nconnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 403")
    writer.close()


@with_token
async def test_where_a_token_is_asked_for_it_alone_decides(reached: Reached) -> None:
    named = {"host": "node-7.example:80", "origin": "http://page.example"}
    assert (await reached.ask(**named)).status_code == 401
    assert (await reached.ask(**named, authorization="Bearer open sesame")).status_code == 200


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@without_token
async def test_curl_needs_to_say_that_it_sends_json_and_nothing_more(reached: Reached) -> None:
    command = ["curl", "-sS", "--noproxy", "*", "-d", '{"stream": true}', reached.url + PATH]
    assert await printed(*command, "-H", "Content-Type: application/json") == b"data: 1\n\n"
    # What curl calls a body by itself is refused, with the words that make it right.
    assert b"-H 'Content-Type: application/json'" in await printed(*command)
    assert reached.server.calls == 1


async def printed(*command: str) -> bytes:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0]


async def test_on_a_unix_socket_no_name_is_asked_for(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.setblocking(False)
    serving = HttpServer(LocalRequests(build_app(Streaming())), listening)
    await serving.start()
    transport = httpx.AsyncHTTPTransport(uds=path)
    async with httpx.AsyncClient(transport=transport, base_url="http://any-name") as client:
        assert (await client.get("/healthz")).status_code == 200
    await serving.stop()


async def test_a_web_socket_of_another_page_is_closed_before_it_opens() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1:8000"), (b"origin", b"http://page.example")]
    scope = {"type": "websocket", "path": "/", "headers": headers, "server": ("127.0.0.1", 8000)}
    await LocalRequests(build_app(Streaming()))(scope, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
