"""vLLM servers of our own, by an imitation: however they end, or we do, nothing of them is left."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.processes import running
from tests.support.vllm import sampled

from paddock.errors import ConfigError, InfraError
from paddock.http import Call
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.engine import VllmEngine

FAST = {"first_retry_s": 0.05, "max_retry_s": 0.1, "health_interval_s": 0.1, "health_timeout_s": 2.0}


def config_of(settings: Any, **fields: Any) -> VllmConfig:
    return VllmConfig(**{"model": "scripted", "launch": settings, **FAST, **fields})


@asynccontextmanager
async def engine_of(settings: Any, **fields: Any) -> AsyncIterator[VllmEngine]:
    engine = VllmEngine(config_of(settings, **fields), name="policy")
    try:
        await engine.start()
        yield engine
    finally:
        await engine.stop()


async def ask(engine: VllmEngine) -> list[int]:
    return [one async for chunk in engine.generate([11, 12, 13], {}, Call(), rollout="s") for one in chunk.ids]


def alive(pids: Sequence[int]) -> list[int]:
    return [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


def all_gone(pids: Sequence[int], within_s: float = 5.0) -> bool:
    end = time.monotonic() + within_s
    while alive(pids) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pids)


def scratch_folders(pids: Sequence[int]) -> set[Path]:
    """Of those processes: others beside this test have theirs."""
    return {Path(psutil.Process(pid).environ()["TMPDIR"]) for pid in pids}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_two_are_started_sample_and_end_with_all_that_they_started(fake_vllm: Any) -> None:
    async with engine_of(fake_vllm.settings(replicas=2)) as engine:
        assert await ask(engine) == sampled([11, 12, 13], 8)
        assert len(alive(fake_vllm.pids)) == 4
        scratch = scratch_folders(fake_vllm.pids)
        assert len(scratch) == 2
        assert all(folder.is_dir() for folder in scratch)
    assert all_gone(fake_vllm.pids, within_s=0)
    assert not any(folder.exists() for folder in scratch)


async def test_one_that_does_not_start_says_what_it_said(fake_vllm: Any) -> None:
    with pytest.raises(InfraError, match="ended with exit code 1") as error:
        async with engine_of(fake_vllm.settings("fail")):
            pass
    assert "ValueError: no such model" in error.value.message
    assert error.value.kind == "start_failed"
    assert not error.value.retryable


async def test_one_that_never_becomes_well_is_ended(fake_vllm: Any) -> None:
    with pytest.raises(InfraError, match=r"was not well within 0\.5 s") as error:
        async with engine_of(fake_vllm.settings("never", start_timeout_s=0.5)):
            pass
    assert error.value.kind == "start_timeout"
    assert all_gone(fake_vllm.pids, within_s=0)


@pytest.mark.slow
async def test_one_that_is_up_but_can_not_sample_is_not_started(fake_vllm: Any) -> None:
    with pytest.raises(InfraError, match="500"):
        async with engine_of(fake_vllm.settings("sick")):
            pass
    assert all_gone(fake_vllm.pids, within_s=0)


@pytest.mark.slow
async def test_one_that_does_not_hear_is_killed(fake_vllm: Any) -> None:
    started = 0.0
    async with engine_of(fake_vllm.settings("deaf")):
        assert len(alive(fake_vllm.pids)) == 2
        started = time.monotonic()
    assert 0.4 < time.monotonic() - started < 3
    assert all_gone(fake_vllm.pids, within_s=0)


async def test_one_that_dies_is_started_again_and_the_rollout_goes_on(fake_vllm: Any) -> None:
    async with engine_of(fake_vllm.settings(restart_wait_s=0.05)) as engine:
        first = fake_vllm.pids
        os.kill(first[0], signal.SIGKILL)
        await until(lambda: engine.replicas.all[0].state == "down")
        assert await ask(engine) == sampled([11, 12, 13], 8)
        assert all_gone(first, within_s=0), "its engine core is gone too"
    assert len(fake_vllm.pids) == 4
    assert all_gone(fake_vllm.pids, within_s=0)


@pytest.mark.slow
async def test_restarts_end(fake_vllm: Any) -> None:
    settings = fake_vllm.settings("fragile", max_restarts=1, restart_wait_s=0.05)
    async with engine_of(settings, attempts=10) as engine:
        with pytest.raises(InfraError, match="it was started again 1 times") as error:
            await ask(engine)
        assert error.value.kind == "replicas_lost"
        assert not error.value.retryable
    assert len(fake_vllm.pids) == 4
    assert all_gone(fake_vllm.pids, within_s=0)


async def test_a_killed_keeper_leaves_nothing(fake_vllm: Any) -> None:
    async with engine_of(fake_vllm.settings(max_restarts=0)) as engine:
        process = engine.replicas.all[0].process
        assert process is not None
        server, core = fake_vllm.pids
        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: process.exited.done())
        assert all_gone([server])
        os.kill(core, signal.SIGKILL)  # this one left the group, and nobody knew it but the keeper


@pytest.mark.slow
def test_nothing_outlives_a_parent_that_is_killed(fake_vllm: Any) -> None:
    script = fake_vllm.folder / "path" / "parent.py"
    settings = fake_vllm.settings().model_dump_json()
    script.write_text(
        "import asyncio\n"
        "from paddock.models_servers.vllm.config import VllmConfig\n"
        "from paddock.models_servers.vllm.engine import VllmEngine\n"
        "from paddock.server.vllm.launch_settings import LaunchSettings\n"
        f"settings = LaunchSettings.model_validate_json({settings!r})\n"
        "config = VllmConfig(model='scripted', launch=settings)\n"
        "async def main():\n"
        "    engine = VllmEngine(config, name='policy')\n"
        "    await engine.start()\n"
        "    print('started', flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    with running("parent", env={"PYTHONPATH": str(script.parent)}) as parent:
        parent.line("started")
        parent.send(signal.SIGKILL)
        parent.code()
        assert len(fake_vllm.pids) == 2
        assert all_gone(fake_vllm.pids)


@pytest.mark.slow
async def test_the_key_goes_in_the_environment_and_is_asked_for(fake_vllm: Any) -> None:
    async with engine_of(fake_vllm.settings(), api_key="geheim") as engine:
        await ask(engine)
        processes = [psutil.Process(pid) for pid in fake_vllm.pids]
        assert not any("geheim" in " ".join(process.cmdline()) for process in processes)
        keeper = processes[0].parent()
        assert keeper is not None
        assert "geheim" not in " ".join(keeper.cmdline())


@pytest.mark.slow
async def test_a_replica_that_is_replaced_is_another_process(fake_vllm: Any) -> None:
    async with engine_of(fake_vllm.settings()) as engine:
        await engine.replicas.replace("policy-0")
        assert await ask(engine) == sampled([11, 12, 13], 8)
    assert len(set(fake_vllm.pids)) == 4


async def test_an_interpreter_without_vllm_is_an_error_of_the_config(fake_vllm: Any) -> None:
    for python in (fake_vllm.folder / "none", sys.executable):
        with pytest.raises(ConfigError, match=r"launch\.python") as error:
            async with engine_of({"python": python, "folder": fake_vllm.folder}):
                pass
        assert error.value.kind == "vllm_missing"
