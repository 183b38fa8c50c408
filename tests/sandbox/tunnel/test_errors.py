"""Claims about errors that go inside: their kind, and what is about the request, but no place of ours."""

import time
from typing import Any

import orjson
import pytest

from paddock.http.transport import make_client
from paddock.sandbox.tunnel.errors import StreamErrors, without_places

ADDRESSES = (
    "http://10.0.0.7:8000/v1/chat",
    "https://models.example/v1",
    "10.0.0.7:8000",
    "10.0.0.7",
    "[fe80::1]:8000",
    "node-7.cluster:8000",
    "localhost:8000",
    "/srv/models/seven/config.json",
    "file:///srv/models/x",
    "grpc://node-7",
)


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("form", ["{}: ConnectError", "can't read {}, so there", "({})", '{{"message": "{} failed"}}'])
def test_no_address_is_left(address: str, form: str) -> None:
    left = without_places(form.format(address).encode()).decode()
    assert left == form.format("...")


@pytest.mark.parametrize(
    "text",
    [
        "maximum context length is 8192 tokens. However, you requested 9000 tokens (100 in the messages)",
        "prompt is too long: 9000 tokens > 8192 maximum",
        "messages[0].content[1].image_url: needs a string",
        "there are: POST /v1/responses, GET /r/{secret}/turns",
        '{"error":{"code":404,"param":null,"message":"and/or at 12:30, a ratio of 3/4"}}',
    ],
)
def test_what_is_about_the_request_is_left(text: str) -> None:
    assert without_places(text.encode()).decode() == text


def test_a_host_that_is_only_named_is_left_out_too() -> None:
    assert without_places(b'{"message": "models.example answered 400: bad"}') == b'{"message": "... answered 400: bad"}'


@pytest.mark.parametrize("piece", [b"a.", b"a-", b"[", b"/a", b"1.", b"a:", b"x"])
def test_no_text_takes_long(piece: bytes) -> None:
    text = piece * (1 << 16)
    begun = time.thread_time()
    without_places(text)
    assert time.thread_time() - begun < 1


@pytest.mark.parametrize("status", [500, 502, 503, 529])
@pytest.mark.parametrize("path", ["/responses", "/chat/completions", "/messages"])
async def test_of_a_failure_the_kind_alone_goes_inside(open_tunnel: Any, upstream: Any, path: str, status: int) -> None:
    error = {"kind": "upstream_timeout", "message": "models.example: no whole answer", "retryable": True}
    upstream.status, upstream.parts = status, [orjson.dumps({"error": error})]
    tunnel = await open_tunnel()
    async with make_client() as client:
        reply = await client.post(tunnel.base_url + path, content=b"{}")
        upstream.parts = [b"<html>models.example</html>"]
        page = await client.post(tunnel.base_url + path, content=b"{}")
    assert reply.json() == {"error": {**error, "message": "the model gave no answer: upstream_timeout"}}
    assert (page.status_code, page.json()["error"]["message"]) == (status, "the model gave no answer: no reason given")


@pytest.mark.parametrize(
    ("event", "left"),
    [
        (
            {"error": {"message": "node: cut", "code": "upstream_connection"}},
            {"error": {"message": "the model gave no answer: upstream_connection", "code": "upstream_connection"}},
        ),
        (
            {"type": "error", "error": {"type": "api_error", "message": "node: cut"}},
            {"type": "error", "error": {"type": "api_error", "message": "the model gave no answer: api_error"}},
        ),
        (
            {"type": "response.failed", "response": {"id": "r", "error": {"code": "x", "message": "node: cut"}}},
            {
                "type": "response.failed",
                "response": {"id": "r", "error": {"code": "x", "message": "the model gave no answer: x"}},
            },
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_within_a_stream_too_however_it_is_cut(event: dict[str, Any], left: dict[str, Any], size: int) -> None:
    said = b'event: a\ndata: {"delta":"\\"error\\":{ at http://node:8000"}\n\n'
    text = said + b"event: b\ndata: " + orjson.dumps(event) + b"\n\n" + said
    errors = StreamErrors()
    out = b"".join(errors.read(text[start : start + size]) for start in range(0, len(text), size)) + errors.rest()
    assert out == said + b"event: b\ndata: " + orjson.dumps(left) + b"\n\n" + said


def test_an_overflow_within_a_stream_keeps_its_numbers() -> None:
    data = {"error": {"code": "context_length_exceeded", "message": "node:8000 answered 400: takes 8, got 9 tokens"}}
    out = StreamErrors().read(b"data: " + orjson.dumps(data) + b"\n\n")
    assert b"... answered 400: takes 8, got 9 tokens" in out
