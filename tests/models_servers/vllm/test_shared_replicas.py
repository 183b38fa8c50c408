"""Several model servers in front of the same vLLMs: what one has started, others ask, whatever becomes of it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_vllm import FakeVllm
from tests.support.vllm import ScriptedVllm, sampled

from paddock.errors import InfraError
from paddock.http import Call
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.engine import VllmEngine
from paddock.models_servers.vllm.replica import Replica
from paddock.models_servers.vllm.server import VllmServer
from paddock.models_servers.vllm.worker_server import WorkerVllmServer
from paddock.server.access import Access
from paddock.server.lifecycle import serve_http
from paddock.server.settings import ServeSettings
from paddock.server.sockets import Address, bind
from paddock.testing.vocabularies import write_model_folder

PROMPT = [11, 12, 13]
FAST = {"first_retry_s": 0.05, "max_retry_s": 0.1, "health_interval_s": 0.05, "health_timeout_s": 0.5}
TOKEN = "geheim"


async def ask(engine: VllmEngine, rollout: str | None = None) -> list[int]:
    return [one async for chunk in engine.generate(PROMPT, {}, Call(), rollout=rollout) for one in chunk.ids]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


class Owner:
    """The model server that has the vLLMs, as others reach it."""

    def __init__(self, server: VllmServer, url: str) -> None:
        self.server = server
        self.url = url

    @property
    def replicas(self) -> list[Replica]:
        assert self.server._engine is not None
        return self.server._engine.replicas.all

    def config(self, **fields: Any) -> VllmConfig:
        source = {"url": self.url, "token": TOKEN}
        return VllmConfig.model_validate({"model": "scripted", "engines_of": source, **FAST, **fields})


@pytest.fixture
def owner(tmp_path: Path) -> Any:
    @asynccontextmanager
    async def owner(**fields: Any) -> AsyncIterator[Owner]:
        tokenizer = write_model_folder(tmp_path / "model")
        given = {"model": "scripted", "tokenizer": tokenizer, "chat_template": "thinking", **FAST, **fields}
        config = VllmConfig.model_validate({**given, "turn_store": {"folder": tmp_path / "turns"}})
        server = VllmServer(config, name="policy", peers={})
        bound = bind("policy", Address("127.0.0.1", 0))
        try:
            await server.start()
            access = Access(TOKEN)
            async with serve_http(
                {"policy": server}, {"policy": bound}, access=access, stop_timeout_s=1.0, limits=ServeSettings()
            ):
                yield Owner(server, bound.url)
        finally:
            await server.stop()
            bound.sock.close()

    return owner


@asynccontextmanager
async def engines(number: int, config: VllmConfig) -> AsyncIterator[list[VllmEngine]]:
    started = [VllmEngine(config, name=f"worker-{nth}") for nth in range(number)]
    try:
        await asyncio.gather(*(engine.start() for engine in started))
        yield started
    finally:
        await asyncio.gather(*(engine.stop() for engine in started))


async def test_all_ask_the_same_vllms_and_agree_where_a_rollout_goes(owner: Any) -> None:
    async with (
        ScriptedVllm() as first,
        ScriptedVllm() as second,
        owner(base_url=[first.url, second.url]) as own,
        engines(2, own.config()) as two,
    ):
        for engine in two:
            for nth in range(10):
                assert await ask(engine, f"rollout {nth}") == sampled(PROMPT, 8)
    counts = len(first.bodies), len(second.bodies)
    assert sum(counts) == 20
    assert all(count and count % 2 == 0 for count in counts), "a rollout has the same vLLM at both"


async def test_a_wrong_token_is_an_error_at_the_start(owner: Any) -> None:
    async with ScriptedVllm() as vllm, owner(base_url=vllm.url) as own:
        config = own.config(engines_of={"url": own.url, "token": "other"})
        with pytest.raises(Exception, match="401") as error:
            async with engines(1, config):
                pass
    assert TOKEN not in str(error.value)


async def test_one_that_is_ready_but_can_not_be_asked_is_an_error_at_the_start(owner: Any) -> None:
    asked = False
    async with ScriptedVllm(fault=lambda _: "500" if asked else None) as vllm, owner(base_url=vllm.url) as own:
        asked = True
        with pytest.raises(InfraError, match="could be asked") as error:
            async with engines(1, own.config(replica_wait_s=0.2)):
                pass
    assert error.value.kind == "replicas_down"


async def test_versions_are_those_of_the_vllm_at_every_server(owner: Any) -> None:
    async with ScriptedVllm() as vllm, owner(base_url=vllm.url) as own, engines(2, own.config()) as two:
        seen = []
        for version in ("7", "8"):
            vllm.version = version
            for engine in two:
                chunks = [chunk async for chunk in engine.generate(PROMPT, {}, Call(), rollout="r")]
                seen.append([span.version for span in chunks[-1].versions])
    assert seen == [["7"], ["7"], ["8"], ["8"]]


async def test_one_that_is_drained_gets_no_calls_of_any_server_until_it_is_back(owner: Any) -> None:
    async with (
        ScriptedVllm() as first,
        ScriptedVllm() as second,
        owner(base_url=[first.url, second.url]) as own,
        engines(2, own.config()) as two,
    ):
        drained = next(replica for replica in own.replicas if first.url.endswith(replica.name))
        drained.drain("it is being replaced")
        shown = [engine.replicas.named(drained.name) for engine in two]
        await until(lambda: all(replica.state == "draining" for replica in shown))
        for engine in two:
            for nth in range(10):
                await ask(engine, f"rollout {nth}")
        assert not first.bodies
        drained.end_drain()
        await until(lambda: all(replica.state == "ready" for replica in shown))
        for nth in range(20):
            await ask(two[0], f"later {nth}")
        assert first.bodies


@pytest.mark.slow
async def test_one_that_was_killed_and_started_again_is_found_at_its_new_port(owner: Any, fake_vllm: FakeVllm) -> None:
    launch = fake_vllm.settings(restart_wait_s=0.05)
    async with owner(launch=launch) as own, engines(2, own.config()) as two:
        before = own.replicas[0].place()["url"]
        assert [await ask(engine) for engine in two] == [sampled(PROMPT, 8)] * 2
        os.kill(fake_vllm.pids[0], signal.SIGKILL)
        # Asked while it is down: each waits for it, and has its answer.
        assert await asyncio.gather(*(ask(engine) for engine in two)) == [sampled(PROMPT, 8)] * 2
        assert own.replicas[0].place()["url"] != before
        await until(lambda: all(len(engine.replicas.all) == 1 for engine in two))


@pytest.mark.slow
async def test_when_it_is_given_up_no_call_waits_for_it(owner: Any, fake_vllm: FakeVllm) -> None:
    launch = fake_vllm.settings(max_restarts=0)
    async with owner(launch=launch) as own, engines(2, own.config()) as two:
        os.kill(fake_vllm.pids[0], signal.SIGKILL)
        await until(lambda: all(engine.replicas.all[0].state == "lost" for engine in two))
        for engine in two:
            with pytest.raises(InfraError, match="no vLLM is left") as error:
                await ask(engine)
            assert (error.value.kind, error.value.retryable) == ("replicas_lost", False)


def test_turns_of_a_worker_are_in_a_folder_of_its_own(tmp_path: Path) -> None:
    config = VllmConfig.model_validate({"model": "scripted", "engines_of": {"url": "http://127.0.0.1:9"}})
    server = WorkerVllmServer(config, name="policy", peers={})
    assert server.store_name == f"policy-{os.getpid()}"
    assert (WorkerVllmServer.OWN_PROCESS, WorkerVllmServer.SHARED) == (False, False)
