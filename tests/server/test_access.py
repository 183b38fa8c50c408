"""Claims about servers on loopback without a configured token: they ask for one that their user's clients find."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

import paddock
from paddock.config import Config, load
from paddock.errors import ConfigError, RequestError
from paddock.http import VERIFY, Call, VerifyRequest, headers_for
from paddock.http.transport import make_client
from paddock.resources_servers.external import ExternalServer
from paddock.resources_servers.external.server import ExternalConfig
from paddock.server.access import tokens_for_clients
from paddock.server.running_servers import Runtime
from paddock.server.runtime import open_runtime
from paddock.server.sockets import Address, bind
from paddock.server.upstream_exchange import EndpointSession, EndpointUrl, json_headers
from paddock.types import JsonObject, Row

ROW: dict[str, Any] = {"responses_create_params": {"input": "hi"}, "cue": "answer"}
BODY = {**ROW, "response": {"output": []}}
pytestmark = pytest.mark.usefixtures("token_cache")


def config(**serve: Any) -> Config:
    cue: JsonObject = {"resources_servers": {"paddock.testing.servers:CueServer": {}}}
    model: JsonObject = {"models_servers": {"paddock.testing.servers:EchoModel": {}}}
    return load([], extra={"serve": serve, "cue": cue, "model": model})


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with open_runtime(config(), listen=True) as opened:
        yield opened


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with make_client() as opened:
        yield opened


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def url_of(runtime: Runtime, name: str = "cue") -> str:
    return runtime.servers[name].url or ""


async def test_a_caller_without_the_token_is_told_where_it_is(runtime: Runtime, client: httpx.AsyncClient) -> None:
    url = url_of(runtime)
    for path in ("/verify", "/v1/responses", "/r/ro_1/v1/chat/completions"):
        reply = await client.post(url + path, json=BODY)
        assert reply.status_code == 401
        assert "paddock.http.headers_for(url)" in reply.json()["error"]["message"]
    assert (runtime.token or "?") not in reply.text
    assert (await client.get(f"{url}/metrics")).status_code == 401
    assert (await client.post(f"{url}/verify", json=BODY, headers=headers_for(url))).json()["reward"] == 1.0


async def test_pages_that_a_browser_shows_are_open_and_ask_for_the_token(
    runtime: Runtime, client: httpx.AsyncClient
) -> None:
    url = url_of(runtime)
    for path in ("/", "/healthz", "/docs", "/docs/assets/swagger-ui.css"):
        assert (await client.get(url + path)).status_code == 200
    described = (await client.get(f"{url}/openapi.json")).json()
    assert described["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}


async def test_a_page_of_another_site_is_refused_with_the_token_too(
    runtime: Runtime, client: httpx.AsyncClient
) -> None:
    url = url_of(runtime)
    for named in ({"host": "rebound.example"}, {"origin": "http://page.example"}):
        assert (await client.get(f"{url}/healthz", headers={**headers_for(url), **named})).status_code == 403


async def test_our_own_clients_find_it(runtime: Runtime) -> None:
    def reach() -> None:
        with paddock.connect(url_of(runtime)) as there:
            assert there.cue.verify(ROW, "done").reward == 1.0
        with paddock.connect(url_of(runtime), token="another") as there, pytest.raises(RequestError, match="needs"):
            there.cue.verify(ROW, "done")

    await asyncio.to_thread(reach)
    outside = ExternalServer(ExternalConfig(base_url=url_of(runtime)), name="outside", peers={})
    await outside.start()
    row = Row(responses_create_params={"input": "hi"}, task={"cue": "answer"})
    verdict = await outside.handlers()[VERIFY](VerifyRequest(row=row, response={"output": []}), Call())
    await outside.stop()
    assert verdict.reward == 1.0


async def test_a_model_server_of_ours_behind_another_is_given_it_beside_its_key(runtime: Runtime) -> None:
    url = EndpointUrl(url_of(runtime, "model") + "/v1/responses")
    session = EndpointSession(1)
    whole = await session.post_whole(url, b'{"input": "hi"}', json_headers("none", {}), 30)
    await session.close()
    assert b'"output"' in whole.content


async def test_it_is_another_at_each_start_and_gone_at_the_end(token_cache: Path) -> None:
    tokens = []
    for _ in range(2):
        async with open_runtime(config(), listen=True) as runtime:
            tokens.append(runtime.token)
            assert set(runtime.token_files) == {"cue", "model"}
            assert sorted(runtime.token_files.values()) == files(token_cache)
        assert files(token_cache) == []
    assert len(set(tokens)) == 2
    assert all(len(token or "") > 40 for token in tokens)


async def test_none_is_made_where_nobody_listens_or_the_config_says_so(
    token_cache: Path, client: httpx.AsyncClient
) -> None:
    async with open_runtime(config()) as inside:
        assert inside.token is None
    async with open_runtime(config(), listen=True, token="own") as configured:
        assert (configured.token, configured.token_files) == ("own", {})
        assert (await client.get(f"{url_of(configured)}/docs")).status_code == 401
    async with open_runtime(config(loopback_token=False), listen=True) as without:
        url = url_of(without)
        assert (await client.post(f"{url}/verify", json=BODY)).status_code == 200
        assert (await client.post(f"{url}/verify", content=b"{}", headers={"content-type": "text/plain"})).is_error
        refused = await client.post(f"{url}/verify", json=BODY, headers={"origin": "http://page.example"})
        assert refused.status_code == 403
    assert files(token_cache) == []


async def test_servers_that_nobody_could_call_do_not_start_but_those_of_a_run_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    with pytest.raises(ConfigError, match="--token-file or PADDOCK_TOKEN"):
        async with open_runtime(config(), listen=True):
            raise AssertionError("it did not open")
    at = bind("cue", Address("127.0.0.1", 0))
    with closing(at.sock), tokens_for_clients("t", {"cue": at}, required=False) as left:
        assert left == {}
    assert "--token-file or PADDOCK_TOKEN" in caplog.text
