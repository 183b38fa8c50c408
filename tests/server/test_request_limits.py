"""Claims about requests that take too much of a server: a body that can't be read as it comes is refused by what it is,
one that is too long by the limit; a request that stalls ends."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterator

import httpx
import orjson
import pytest

from paddock.config import load
from paddock.http.access import bearer
from paddock.server.access import Access
from paddock.server.app import build_app
from paddock.server.http_server import HttpServer
from paddock.server.runtime import open_runtime
from paddock.server.settings import RequestLimits
from paddock.server.sockets import Address, bind
from paddock.testing.servers import CueConfig, CueServer
from paddock.types import JsonObject

BODY = orjson.dumps({"responses_create_params": {"input": "ü"}, "cue": "answer", "response": {"output": []}})
LONG = b'{"a": "%s"}' % (b"x" * (1 << 20))
SERVER = CueServer(CueConfig(), name="cue", peers={})
JSON = {"content-type": "application/json"}
HEAD = b"POST /verify HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


async def post(content: bytes | AsyncIterator[bytes], **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(build_app(SERVER, limits=RequestLimits(max_body_mib=1)))
    async with httpx.AsyncClient(transport=transport, base_url="http://cue") as client:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await client.post("/verify", content=content, headers={**JSON, **named})


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 1 << 16):
        yield content[start : start + (1 << 16)]


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "gzip, identity"])
async def test_an_encoded_body_is_refused_by_its_encoding(encoding: str) -> None:
    reply = await post(gzip.compress(BODY), content_encoding=encoding)
    assert (reply.status_code, reply.json()["error"]["kind"]) == (415, "body_unsupported")
    assert f"`{encoding}`" in reply.json()["error"]["message"]


@pytest.mark.parametrize("charset", ["utf-16", "UTF-16LE", "latin-1"])
async def test_another_charset_is_refused_by_its_name(charset: str) -> None:
    reply = await post(BODY.decode().encode(charset), content_type=f'application/json; charset="{charset}"')
    assert reply.status_code == 415
    assert f"`{charset}`" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=UTF-8",
        "application/vnd.rollout+json ;charset=us-ascii",
    ],
)
async def test_a_plain_body_is_read(content_type: str) -> None:
    reply = await post(BODY, content_type=content_type, content_encoding="identity")
    assert reply.status_code == 200


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "text/plain; charset=application/json",
        FORM,
        "multipart/form-data; boundary=application/json",
        "application/jsonx",
        "text/plain, application/json",
    ],
)
@pytest.mark.parametrize("token", [None, "key"])
@pytest.mark.parametrize("length_is_told", [True, False])
async def test_a_body_that_is_not_called_json_is_not_read(
    content_type: str | None, token: str | None, length_is_told: bool
) -> None:
    transport = httpx.ASGITransport(build_app(SERVER, access=Access(token)))
    headers = {"authorization": "Bearer key"} | ({} if content_type is None else {"content-type": content_type})
    async with httpx.AsyncClient(transport=transport, base_url="http://cue", headers=headers) as client:
        reply = await client.post("/verify", content=BODY if length_is_told else pieces(BODY))
        assert (reply.status_code, reply.json()["error"]["kind"]) == (415, "body_unsupported")
        assert "-H 'Content-Type: application/json'" in reply.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/verify", "/v1/responses", "/v1/chat/completions", "/r/ro_1/v1/messages"])
async def test_clients_of_each_dialect_are_told_of_a_wrong_content_type_in_its_form(path: str) -> None:
    transport = httpx.ASGITransport(build_app(SERVER))
    async with httpx.AsyncClient(transport=transport, base_url="http://cue") as client:
        reply = await client.post(path, content=BODY, headers={"content-type": FORM})
    assert reply.status_code == 415
    error = reply.json()["error"]
    assert f"content-type `{FORM}`" in error["message"]
    if path.endswith("messages"):
        assert (reply.json()["type"], error["type"]) == ("error", "invalid_request_error")
    elif path.startswith("/v1/"):
        assert error["code"] == "body_unsupported"
    else:
        assert (error["owner"], error["kind"]) == ("user", "body_unsupported")


async def test_a_request_without_a_body_needs_no_content_type() -> None:
    transport = httpx.ASGITransport(build_app(SERVER))
    async with httpx.AsyncClient(transport=transport, base_url="http://cue") as client:
        assert (await client.get("/healthz")).status_code == 200
        empty = await client.post("/verify", headers={"content-type": FORM})
        assert (empty.status_code, empty.json()["error"]["kind"]) == (400, "body_invalid")


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_the_limit_is_refused(announced: bool) -> None:
    reply = await post(LONG if announced else pieces(LONG))
    assert (reply.status_code, reply.json()["error"]["kind"]) == (413, "body_too_large")
    assert "1 MiB (`serve.max_body_mib`)" in reply.json()["error"]["message"]
    assert (await post(pieces(BODY))).status_code == 200


@pytest.fixture(
    params=[HEAD, HEAD + b"content-length: 99\r\n\r\n{", HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n", b""]
)
def partial_request(request: pytest.FixtureRequest) -> Iterator[bytes]:
    """Half a request, or none."""
    yield request.param


@pytest.mark.slow
async def test_a_request_that_stalls_ends(partial_request: bytes) -> None:
    bound = bind("cue", Address("127.0.0.1", 0))
    server = HttpServer(build_app(SERVER), bound.sock, stall_timeout_s=0.05)
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(bound.url.rpartition(":")[2]))
        writer.write(partial_request)
        async with asyncio.timeout(60):
            said = await reader.read()
        writer.close()
    finally:
        await server.stop()
    assert said.startswith(b"HTTP/1.1 408 ")
    assert orjson.loads(said.partition(b"\r\n\r\n")[2])["error"]["kind"] == "request_stalled"


@pytest.mark.slow
async def test_a_request_that_comes_slowly_and_an_answer_that_takes_its_time_are_no_stalls() -> None:
    bound = bind("cue", Address("127.0.0.1", 0))
    server = HttpServer(build_app(SERVER), bound.sock, stall_timeout_s=0.05)
    await server.start()
    hanging: JsonObject = {**orjson.loads(BODY), "cue": "hang"}
    try:
        async with httpx.AsyncClient(timeout=60) as client:
            call = asyncio.create_task(client.post(f"{bound.url}/verify", json=hanging))
            reader, writer = await asyncio.open_connection("127.0.0.1", int(bound.url.rpartition(":")[2]))
            whole = HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
            for start in range(0, len(whole), 40):
                writer.write(whole[start : start + 40])
                await asyncio.sleep(0.3)
            said = await reader.readuntil(b"\r\n")
            writer.close()
            assert not call.done()
            call.cancel()
            await asyncio.wait([call])
    finally:
        await server.stop()
    assert said == b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize("isolate", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_the_config_sets_the_limits_of_all_servers(isolate: bool) -> None:
    config = load(
        [],
        extra={"cue": {"resources_servers": {"paddock.testing.servers:CueServer": {}}}, "serve": {"max_body_mib": 1}},
    )
    async with open_runtime(config, listen=True, isolate=isolate) as runtime, httpx.AsyncClient(timeout=60) as client:
        url, headers = runtime.servers["cue"].url, {**JSON, **bearer(runtime.token)}
        assert (await client.post(f"{url}/verify", content=pieces(LONG), headers=headers)).status_code == 413
        assert (await client.post(f"{url}/verify", content=BODY, headers=headers)).status_code == 200
