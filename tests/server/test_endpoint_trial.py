"""Claims about the trial of a model's endpoint: what can't work is an error that says what would be right, what may
pass is a warning, and nothing is asked that its list of models has answered."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson
import pytest

from paddock.errors import ConfigError
from paddock.server.endpoint_trial import UpstreamEndpoint, try_endpoint
from paddock.testing import ScriptedUpstream

ENDLESS_BYTES = 1 << 29
LISTED = (200, {"object": "list", "data": [{"id": "small"}, {"id": "gpt-large"}, {"id": None}, 3]})
NO_PATH = (404, {"detail": "Not Found"})
ANSWER: tuple[int, Any] = (200, {"choices": []})
WRONG_KEY = (401, {"error": {"message": "Incorrect API key provided: sk-secret"}})
NO_MODEL = (404, {"error": {"message": "The model `gpt-lagre` does not exist", "code": "model_not_found"}})
BUSY = (503, {"error": {"message": "loading"}})


@dataclass
class CannedEndpoint:
    """Answers by the last part of the path, and what it was sent."""

    answers: Mapping[str, tuple[int, Any]]
    url: str = ""
    asked: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ", 2)[1]
        self.asked.append(path)
        self.heads.append(head.lower())
        status, body = self.answers[path.rpartition("/")[2]]
        content = body if isinstance(body, bytes) else orjson.dumps(body)
        writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (status, len(content)))
        writer.write(content)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def canned(**answers: tuple[int, Any]) -> AsyncIterator[CannedEndpoint]:
    endpoint = CannedEndpoint(answers)
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    endpoint.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server:
        yield endpoint


def named(url: str, model: str = "gpt-lagre", api: Literal["chat", "responses"] = "chat") -> UpstreamEndpoint:
    return UpstreamEndpoint([url], {"authorization": "Bearer sk-secret"}, model, api)


async def test_a_model_that_is_listed_costs_no_request() -> None:
    async with canned(models=LISTED) as endpoint:
        assert await try_endpoint("policy", named(endpoint.url, "small"), 5.0) == []
    assert endpoint.asked == ["/v1/models"]
    assert "authorization: bearer sk-secret" in endpoint.heads[0]


@pytest.mark.parametrize(
    ("models", "answer"), [(LISTED, ANSWER), (NO_PATH, ANSWER), (WRONG_KEY, ANSWER), ((200, b"<html>"), ANSWER)]
)
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_list_that_decides_nothing_is_followed_by_one_small_request(
    models: tuple[int, Any], answer: tuple[int, Any], api: Any
) -> None:
    async with canned(models=models, completions=answer, responses=answer) as endpoint:
        assert await try_endpoint("policy", named(endpoint.url, api=api), 5.0) == []
    assert endpoint.asked == ["/v1/models", "/v1/chat/completions" if api == "chat" else "/v1/responses"]


@pytest.mark.parametrize(
    ("models", "answer", "kind", "parts"),
    [
        (WRONG_KEY, WRONG_KEY, "endpoint_key", ["/v1/chat/completions answered 401", "`api_key`"]),
        (LISTED, NO_MODEL, "endpoint_model", ["answered 404", "does not exist", "lists gpt-large, small"]),
        (LISTED, (400, {"message": "invalid model"}), "endpoint_model", ["answered 400: invalid model", "gpt-large"]),
        (NO_PATH, NO_PATH, "endpoint_model", ["answered 404: Not Found", "`base_url`, which ends in `/v1`"]),
    ],
)
async def test_what_can_not_work_is_an_error_that_says_what_would_be_right(
    models: tuple[int, Any], answer: tuple[int, Any], kind: str, parts: list[str]
) -> None:
    async with canned(models=models, completions=answer) as endpoint:
        with pytest.raises(ConfigError) as raised:
            await try_endpoint("policy", named(endpoint.url), 5.0)
    assert raised.value.kind == kind
    assert all(part in str(raised.value) for part in ("policy: ", endpoint.url, *parts)), raised.value
    assert "sk-secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("models", "answer"),
    [(BUSY, ANSWER), ((429, {}), ANSWER), (LISTED, BUSY), (NO_PATH, (400, {"message": "max_tokens is too small"}))],
)
async def test_what_may_pass_is_a_warning(models: tuple[int, Any], answer: tuple[int, Any]) -> None:
    async with canned(models=models, completions=answer) as endpoint:
        (warning,) = await try_endpoint("policy", named(endpoint.url), 5.0)
    assert warning.startswith(f"policy: {endpoint.url}/")
    assert "the run starts all the same" in warning


async def test_where_no_server_is_that_is_said() -> None:
    endpoint = named("http://user:pass@127.0.0.1:1/v1")
    with pytest.raises(ConfigError) as raised:
        await try_endpoint("policy", endpoint._replace(headers={}), 5.0)
    assert raised.value.kind == "endpoint_unreachable"
    assert "policy: no server answers at http://127.0.0.1:1/v1: can't connect" in str(raised.value)
    with pytest.raises(ConfigError, match="AUTHORIZATION header with AUTH"):
        await try_endpoint("policy", endpoint, 5.0)


async def test_an_endpoint_that_hangs_is_given_up_in_time_and_warned_of() -> None:
    async with ScriptedUpstream(models=(), faults=lambda _: "hang") as upstream:
        warnings = await try_endpoint("policy", named(upstream.url), 0.2)
    assert warnings == [f"policy: {upstream.url} did not answer within 0.2 s"]


async def test_each_of_several_urls_is_tried() -> None:
    async with canned(models=LISTED) as one, canned(models=BUSY) as other:
        endpoint = named(one.url, "small")._replace(urls=[one.url, other.url])
        (warning,) = await try_endpoint("policy", endpoint, 5.0)
    assert other.url in warning


async def test_an_answer_without_an_end_is_not_read_to_it() -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        with suppress(ConnectionError):
            while sent < ENDLESS_BYTES:
                writer.write(b" " * (1 << 16))
                sent += 1 << 16
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        assert await try_endpoint("policy", named(url), 20.0) == []
    assert sent < ENDLESS_BYTES / 4
