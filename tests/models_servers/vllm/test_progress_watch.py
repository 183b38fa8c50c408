"""Claims about a vLLM that hangs and says that it is healthy: it is told from one that is busy, paused or silent on
purpose, and started again within the stated time."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.fake_vllm import FakeVllm
from tests.support.vllm import Fault, ScriptedVllm, sampled

from paddock.http import Call
from paddock.http.transport import make_session
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.engine import VllmEngine
from paddock.server.engine_client import EngineClient
from paddock.server.vllm.progress_watch import ProgressWatch
from paddock.server.vllm.restarting_vllm import RestartingVllm

PROMPT = [11, 12, 13]
STALL_S = 0.8


def hang(_: int) -> Fault:
    return "hang"


@asynccontextmanager
async def watched(vllm: ScriptedVllm) -> AsyncIterator[ProgressWatch]:
    async with vllm, make_session() as session:
        watch = ProgressWatch(EngineClient(session, vllm.url, None), "scripted", STALL_S)
        watch.start()
        try:
            yield watch
        finally:
            await watch.stop()


async def test_one_that_hangs_is_stalled_within_the_time() -> None:
    began = time.monotonic()
    async with watched(ScriptedVllm(fault=hang)) as watch:
        async with asyncio.timeout(4 * STALL_S):
            assert "no token came for 0.8 s" in await watch.stalled
    assert 0.75 * STALL_S < time.monotonic() - began < 2 * STALL_S


async def test_one_that_answers_and_one_whose_tokens_move_are_not() -> None:
    busy = ScriptedVllm(fault=hang)
    async with watched(ScriptedVllm()) as answers, watched(busy) as moves:
        for _ in range(40):
            await asyncio.sleep(STALL_S / 10)
            busy.n_tokens = (busy.n_tokens or 0) + 1
        assert not answers.stalled.done()
        assert not moves.stalled.done()
        async with asyncio.timeout(4 * STALL_S):
            await moves.stalled


async def test_one_without_counters_is_never_stalled() -> None:
    silent = ScriptedVllm(fault=hang)
    silent.n_tokens = None
    async with watched(silent) as watch:
        await asyncio.sleep(3 * STALL_S)
        assert not watch.stalled.done()


@pytest.mark.parametrize(
    ("pause", "no_end", "end"),
    [(("pause", {}), None, ("resume", {})), (("sleep", {}), {"tags": "weights"}, ("wake_up", {"tags": "kv_cache"}))],
)
async def test_no_time_counts_while_it_is_paused(
    pause: tuple[str, dict[str, str]], no_end: dict[str, str] | None, end: tuple[str, dict[str, str]]
) -> None:
    async with watched(ScriptedVllm(fault=hang)) as watch:
        await asyncio.sleep(STALL_S / 2)
        watch.begins(*pause)
        watch.ended(pause[0])
        if no_end is not None:
            watch.begins("wake_up", no_end)
        await asyncio.sleep(3 * STALL_S)
        assert not watch.stalled.done()
        watch.begins(*end)
        async with asyncio.timeout(4 * STALL_S):
            await watch.stalled


async def test_a_pause_that_is_not_answered_does_not_hide_it() -> None:
    async with watched(ScriptedVllm(fault=hang)) as watch:
        watch.begins("pause", {})
        async with asyncio.timeout(4 * STALL_S):
            await watch.stalled


@pytest.mark.slow
async def test_one_of_our_own_is_started_again_and_its_call_is_answered(fake_vllm: FakeVllm, tmp_path: Path) -> None:
    launch = fake_vllm.settings("hangs", stall_timeout_s=STALL_S, restart_wait_s=0.05)
    fields = {"first_retry_s": 0.05, "max_retry_s": 0.1, "health_interval_s": 0.1}
    engine = VllmEngine(VllmConfig(model="scripted", launch=launch, **fields), name="policy")
    await engine.start()
    try:
        for _ in range(2):  # the second one hangs at the first vLLM
            chunks = [chunk async for chunk in engine.generate(PROMPT, {}, Call(), rollout="r", stream=False)]
            assert [one for chunk in chunks for one in chunk.ids] == sampled(PROMPT, 8)
        assert len(fake_vllm.pids) == 4, "a server and its core, twice"
    finally:
        await engine.stop()


@pytest.mark.slow
async def test_and_so_is_a_judges(fake_vllm: FakeVllm) -> None:
    from paddock.server.vllm.launcher import Launcher, ServedModel

    launch = fake_vllm.settings("hangs", stall_timeout_s=STALL_S, restart_wait_s=0.05)
    launcher = await Launcher.make(ServedModel("scripted"), launch, name="judge")
    async with make_session() as session:
        server = RestartingVllm("judge-0", launcher.maker(0, session), launch, check_interval_s=0.1)
        await server.start()
        first = server.url
        try:
            async with asyncio.timeout(20):
                while server.url in (first, None):
                    await asyncio.sleep(0.05)
        finally:
            await server.stop()
            launcher.close()
