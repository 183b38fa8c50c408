"""Claims about a judge on vLLM servers of its own: started, kept up, and gone with all that they started."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.fake_vllm import FakeVllm

from paddock.config import load, validate
from paddock.errors import ConfigError, InfraError, from_wire
from paddock.http.transport import make_session
from paddock.models_servers.genrm.config import GenrmModelConfig
from paddock.server.vllm.launcher import Launcher, ServedModel
from paddock.server.vllm.restarting_vllm import RestartingVllm
from paddock.types.responses import messages

Judging = Callable[..., Any]


def comparison(judge: str = "0") -> dict[str, Any]:
    metadata = {"response_1": "a", "response_2": "the second", "judge_idx": judge}
    return {"input": "which?", "metadata": metadata}


@pytest.fixture
def fake_vllm(tmp_path: Path) -> FakeVllm:
    return FakeVllm(tmp_path)


def all_gone(pids: Sequence[int], within_s: float = 20.0) -> bool:
    def alive() -> bool:
        return any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids)

    end = time.monotonic() + within_s
    while alive() and time.monotonic() < end:
        time.sleep(0.02)
    return not alive()


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not holds():
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_a_judge_of_its_own_answers_and_leaves_nothing(judging: Judging, fake_vllm: FakeVllm) -> None:
    launch = fake_vllm.settings().model_dump()
    async with judging(base_url=None, launch=launch, api_key="geheim", reasoning_parser="qwen3") as (client, _):
        got = await client.ask("responses", comparison())
        commands = [" ".join(psutil.Process(pid).cmdline()) for pid in fake_vllm.pids]
        assert len(commands) == 2
        assert not any("geheim" in command for command in commands)
        assert "--reasoning-parser qwen3" in commands[0]
    assert messages(got.body) == ["the second"]
    assert all_gone(fake_vllm.pids)


@pytest.mark.slow
async def test_one_that_dies_comes_back_until_its_restarts_are_used_up(judging: Judging, fake_vllm: FakeVllm) -> None:
    launch = fake_vllm.settings(max_restarts=1, restart_wait_s=0.05).model_dump()
    async with judging(base_url=None, launch=launch, retry_for_s=120) as (client, server):
        os.kill(fake_vllm.pids[0], signal.SIGKILL)
        got = await client.ask("responses", comparison())
        assert messages(got.body) == ["the second"]
        await until(lambda: len(fake_vllm.pids) == 4)
        os.kill(fake_vllm.pids[2], signal.SIGKILL)
        await until(lambda: server.endpoints.all[0].url is None)
        got = await client.ask("responses", comparison("1"))
        error = from_wire(got.status, got.body)
        assert (type(error), error.kind, error.retryable) == (InfraError, "replicas_lost", False)
    assert all_gone(fake_vllm.pids)


@pytest.mark.slow
async def test_one_that_is_not_well_any_more_is_started_again(fake_vllm: FakeVllm) -> None:
    settings = fake_vllm.settings("fades", max_restarts=1, restart_wait_s=0.05)
    launcher = await Launcher.make(ServedModel("m"), settings, name="judge")
    async with make_session() as session:
        kept = RestartingVllm("judge-0", launcher.maker(0, session), settings, check_interval_s=0.05, misses=2)
        try:
            await kept.start()
            first = kept.url
            await until(lambda: kept.url not in (None, first))
            assert all_gone(fake_vllm.pids[:2])
            await until(lambda: kept.lost)
            assert "health check" in kept.why
        finally:
            await kept.stop()
            launcher.close()
    assert all_gone(fake_vllm.pids)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({}, "either `base_url`"),
        ({"base_url": "http://a/v1", "launch": {}}, "either `base_url`"),
        ({"base_url": "http://a/v1", "reasoning_parser": "qwen3"}, "only servers of its own"),
    ],
)
def test_it_is_somewhere_or_is_launched(block: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        validate(GenrmModelConfig, {"model": "m", **block}, "judge")


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("genrm_model", ["genrm_base_url=http://127.0.0.1:8000/v1", "genrm_api_key=null", "genrm_model_name=m"]),
        ("genrm_model_vllm", ["genrm_model_name=m"]),
    ],
)
def test_its_configs_load(name: str, given: list[str]) -> None:
    path = f"models_servers/genrm/configs/{name}.yaml"
    config = load([path], given, strict=True)
    config.require()
    assert [instance.kind for instance in config.instances.values()] == ["models_servers"]
    assert path in (Path(__file__).parents[3] / path).read_text().splitlines()[0]
