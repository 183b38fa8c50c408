"""Several servers as one: which of them a rollout gets, and what happens when one dies, falls silent or is replaced."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from tests.support.vllm import ScriptedVllm, sampled

from paddock.errors import ConfigError, InfraError
from paddock.http import Call
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.engine import VllmEngine

PROMPT = [11, 12, 13]
FAST = {"first_retry_s": 0.05, "max_retry_s": 0.1, "health_interval_s": 0.05, "health_timeout_s": 0.3}


@asynccontextmanager
async def engine_of(*servers: ScriptedVllm, **fields: Any) -> AsyncIterator[VllmEngine]:
    config = VllmConfig(base_url=[vllm.url for vllm in servers], model="scripted", **{**FAST, **fields})
    engine = VllmEngine(config, name="policy")
    try:
        await engine.start()
        yield engine
    finally:
        await engine.stop()


@asynccontextmanager
async def servers(number: int, **fields: Any) -> AsyncIterator[list[ScriptedVllm]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(ScriptedVllm(**fields)) for _ in range(number)]


async def ask(engine: VllmEngine, rollout: str | None) -> list[int]:
    return [one async for chunk in engine.generate(PROMPT, {}, Call(), rollout=rollout) for one in chunk.ids]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


def states(engine: VllmEngine) -> list[str]:
    return [replica.state for replica in engine.replicas.all]


async def test_a_rollout_keeps_to_one_server_and_rollouts_are_spread() -> None:
    async with servers(3) as three, engine_of(*three) as engine:
        for _ in range(3):
            await ask(engine, "one")
        assert sorted(len(vllm.bodies) for vllm in three) == [0, 0, 3]
        for nth in range(30):
            await ask(engine, f"rollout {nth}")
        assert all(len(vllm.bodies) >= 4 for vllm in three)


async def test_calls_of_no_rollout_take_turns() -> None:
    async with servers(2) as two, engine_of(*two) as engine:
        for _ in range(4):
            await ask(engine, None)
    assert [len(vllm.bodies) for vllm in two] == [2, 2]


async def test_a_rollout_moves_when_its_server_dies_and_stays_where_it_went() -> None:
    async with servers(2) as two, engine_of(*two) as engine:
        await ask(engine, "one")
        dead, alive = sorted(two, key=lambda vllm: -len(vllm.bodies))
        await dead.__aexit__(None, None, None)
        assert await ask(engine, "one") == sampled(PROMPT, 8)
        assert len(alive.bodies) == 1
        await dead.__aenter__()
        await until(lambda: states(engine) == ["ready", "ready"])
        await ask(engine, "one")
        assert len(alive.bodies) == 2
        for nth in range(20):
            await ask(engine, f"rollout {nth}")
        assert len(dead.bodies) > 1, "the one that came back is used again"


async def test_a_server_that_stops_answering_health_checks_is_dead_and_its_calls_fail_at_once() -> None:
    async with servers(1, chunk_delay_s=0.1, count=500) as (vllm,), engine_of(vllm, health_failures=2) as engine:
        stream = engine.generate(PROMPT, {}, Call(), rollout="s")
        await anext(stream)
        vllm.well = "silent"
        with pytest.raises(InfraError, match="died") as error:
            async with asyncio.timeout(5):
                async for _ in stream:
                    pass
        assert error.value.kind == "upstream_connection"
        assert error.value.retryable
        assert states(engine) == ["down"]


async def test_a_server_that_says_it_is_not_well_is_dead_at_once() -> None:
    async with servers(2) as two, engine_of(*two) as engine:
        two[0].well = "no"
        await until(lambda: states(engine) == ["down", "ready"])
        for nth in range(8):
            await ask(engine, f"rollout {nth}")
        assert [len(vllm.bodies) for vllm in two] == [0, 8]


async def test_a_server_is_back_only_when_it_has_sampled() -> None:
    broken = True
    one, two = ScriptedVllm(fault=lambda _: "500" if broken else None), ScriptedVllm()
    async with one, two, engine_of(one, two) as engine:
        await asyncio.sleep(0.2)
        assert states(engine) == ["down", "ready"]
        broken = False
        await until(lambda: states(engine) == ["ready", "ready"])


async def test_a_call_waits_for_a_server_while_none_is_well() -> None:
    async with servers(1) as (vllm,), engine_of(vllm) as engine:
        vllm.well = "no"
        await until(lambda: states(engine) == ["down"])
        asking = asyncio.create_task(ask(engine, "s"))
        await asyncio.sleep(0.2)
        assert not asking.done()
        vllm.well = "yes"
        assert await asking == sampled(PROMPT, 8)


async def test_waiting_for_a_server_ends_and_says_why() -> None:
    async with servers(1) as (vllm,), engine_of(vllm, replica_wait_s=0.2) as engine:
        await vllm.__aexit__(None, None, None)
        await until(lambda: states(engine) == ["down"])
        with pytest.raises(InfraError, match=r"no vLLM was well for 0.2 s: 127.0.0.1:\d+: ") as error:
            await ask(engine, "s")
        assert error.value.kind == "replicas_down"


async def test_nothing_is_served_when_no_server_is_there_at_the_start() -> None:
    async with servers(1) as (vllm,):
        await vllm.__aexit__(None, None, None)
        with pytest.raises(InfraError) as error:
            async with engine_of(vllm):
                pass
        assert error.value.kind == "upstream_connection"


async def test_one_wrong_server_of_several_is_an_error_of_the_config() -> None:
    async with ScriptedVllm() as good, ScriptedVllm(form="text") as wrong:
        with pytest.raises(ConfigError, match="--enable-scale-out"):
            async with engine_of(good, wrong):
                pass


async def test_a_server_that_is_replaced_ends_its_calls_and_gets_no_new_ones() -> None:
    async with servers(2, chunk_delay_s=0.05) as two, engine_of(*two) as engine:
        stream = engine.generate(PROMPT, {}, Call(), rollout="one")
        ids = (await anext(stream)).ids
        old = next(replica for replica in engine.replicas.all if replica.running)
        replacing = asyncio.create_task(engine.replicas.replace(old.name))
        await until(lambda: old.state == "draining")
        busy, other = sorted(two, key=lambda vllm: -len(vllm.bodies))
        await ask(engine, "one")
        await ask(engine, "two")
        assert (len(busy.bodies), len(other.bodies)) == (1, 2)
        async for chunk in stream:
            ids += chunk.ids
        assert ids == sampled(PROMPT, 8), "the call that ran has ended whole"
        await replacing
        assert states(engine) == ["ready", "ready"]


async def test_a_server_that_is_replaced_is_not_waited_for_for_ever() -> None:
    async with servers(1, chunk_delay_s=0.1, count=500) as (vllm,), engine_of(vllm, drain_s=0.1) as engine:
        stream = engine.generate(PROMPT, {}, Call(), rollout="one")
        await anext(stream)
        replacing = asyncio.create_task(engine.replicas.replace(engine.replicas.all[0].name))
        with pytest.raises(InfraError, match="being replaced"):
            async for _ in stream:
                pass
        await replacing


async def test_an_unknown_replica_is_an_error_that_names_those_there_are() -> None:
    async with servers(1) as (vllm,), engine_of(vllm) as engine:
        with pytest.raises(ConfigError, match="there are 127"):
            await engine.replicas.replace("x")


@pytest.mark.parametrize("fields", [{}, {"base_url": "http://x", "launch": {}}])
def test_servers_are_either_running_or_launched(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="either"):
        VllmConfig.model_validate({"model": "m", **fields})
