"""The server itself: what it tells a trainer of its vLLM servers, and where its chat template comes from."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.vllm import ScriptedVllm

from paddock.errors import ConfigError
from paddock.models_servers.vllm import VllmServer
from paddock.models_servers.vllm.config import VllmConfig
from paddock.server.access import Access
from paddock.server.app import build_app
from paddock.testing.vocabularies import write_model_folder

TEMPLATE = "{% for message in messages %}<|im_start|>{{ message['content'] }}<|im_end|>{% endfor %}"


def config_of(folder: Path, **fields: Any) -> VllmConfig:
    tokenizer = write_model_folder(folder / "model", chat_template=TEMPLATE)
    store = {"folder": str(folder / "turns")}
    return VllmConfig.model_validate({"model": "scripted", "tokenizer": tokenizer, "turn_store": store, **fields})


async def get_replicas(server: VllmServer, token: str | None = None, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(build_app(server, access=Access(token)))
    async with httpx.AsyncClient(transport=transport, base_url="http://policy", headers=headers) as client:
        return await client.get("/replicas")


async def test_a_trainer_is_told_where_the_servers_are_and_what_they_have(tmp_path: Path) -> None:
    async with ScriptedVllm(workers=2, key="geheim") as vllm, ScriptedVllm(version=None, key="geheim") as other:
        config = config_of(tmp_path, base_url=[vllm.url, other.url], api_key="geheim")
        server = VllmServer(config, name="policy", peers={})
        try:
            await server.start()
            answer = await get_replicas(server)
            other.well = "no"
        finally:
            await server.stop()
    first, second = answer.json()["replicas"]
    assert first == {
        "name": vllm.url.removeprefix("http://"),
        "url": vllm.url,
        "state": "ready",
        "why": "",
        "device": None,
        "weight_transfer": None,
        "weight_version": "7",
        "world_size": 2,
    }
    assert [second["weight_version"], second["world_size"]] == [None, None]
    assert "geheim" not in answer.text


async def test_a_trainers_calls_are_passed_on_with_the_servers_token(tmp_path: Path) -> None:
    async with ScriptedVllm(workers=2, key="geheim") as vllm:
        server = VllmServer(config_of(tmp_path, base_url=vllm.url, api_key="geheim"), name="policy", peers={})
        await server.start()
        transport = httpx.ASGITransport(build_app(server, access=Access("token")))
        root = f"http://policy/replicas/{vllm.url.removeprefix('http://')}"
        try:
            async with httpx.AsyncClient(transport=transport, headers={"authorization": "Bearer token"}) as client:
                how = {"mode": "keep", "clear_cache": "true"}
                answers = [
                    await client.get(f"{root}/get_world_size"),
                    await client.get(f"{root}/health"),
                    await client.post(f"{root}/pause", json=how),
                    await client.post(f"{root}/update_weight_version", json={"new_version": "8"}),
                    await client.post(f"{root}/collective_rpc", json={}),
                    await client.get(f"{root}/pause"),
                    await client.get(f"{root}/health", headers={"authorization": "Bearer geheim"}),
                ]
        finally:
            await server.stop()
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 400, 400, 401]
    assert answers[0].json() == {"world_size": 2}
    assert (vllm.paused, vllm.version) == (how, "8")


@pytest.mark.slow
async def test_a_launched_server_says_what_it_runs_on_and_how_weights_come(fake_vllm: Any, tmp_path: Path) -> None:
    config = config_of(tmp_path, launch=fake_vllm.settings(weight_transfer="gloo"), api_key="geheim")
    server = VllmServer(config, name="policy", peers={})
    try:
        await server.start()
        answer = await get_replicas(server)
    finally:
        await server.stop()
    (only,) = answer.json()["replicas"]
    assert [only["name"], only["device"], only["weight_transfer"]] == ["policy-0", "cpu", "gloo"]
    assert only["url"].startswith("http://127.0.0.1:")


async def test_who_has_no_token_is_told_nothing(tmp_path: Path) -> None:
    server = VllmServer(config_of(tmp_path, base_url="http://127.0.0.1:9"), name="policy", peers={})
    assert (await get_replicas(server, token="secret")).status_code == 401
    allowed = await get_replicas(server, token="secret", authorization="Bearer secret")
    assert allowed.json() == {"replicas": []}, "it was not started"


def test_a_template_is_a_name_a_file_or_itself(tmp_path: Path) -> None:
    (tmp_path / "mine.jinja").write_text(TEMPLATE)
    named = config_of(tmp_path, base_url="http://x", chat_template="thinking")
    assert named.template is not None
    assert "<|im_start|>" in named.template
    assert config_of(tmp_path, base_url="http://x", chat_template=str(tmp_path / "mine.jinja")).template == TEMPLATE
    for inline in (TEMPLATE, "{{ messages }}"):
        assert config_of(tmp_path, base_url="http://x", chat_template=inline).template == inline
    assert config_of(tmp_path, base_url="http://x").template is None
    with pytest.raises(ConfigError, match="thinking"):
        _ = config_of(tmp_path, base_url="http://x", chat_template="thinkin").template


def test_what_every_process_of_vllm_loads_is_small() -> None:
    """The plugin: without the server, and nothing where there is no vLLM."""
    code = (
        "import sys; from paddock.models_servers.vllm.transfer import register; register()\n"
        "print(sorted({'torch', 'fastapi', 'pydantic', 'aiohttp'}.intersection(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
