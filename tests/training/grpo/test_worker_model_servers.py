"""Rollout workers with a model server each, before the same vLLMs: samples, faults of vLLMs and of workers."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.support.fake_vllm import FakeVllm
from tests.support.vllm import ScriptedVllm

from paddock.config import Config, load
from paddock.models_servers.vllm.worker_server import WorkerVllmServer
from paddock.temporary import turns_root
from paddock.testing.vocabularies import write_model_folder
from paddock.training.core.records import Member
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.grpo.environment import EngineHost
from paddock.training.grpo.model_server import SharedEngines, engine_settings, with_own_model_server
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.rows import IndexedRows
from paddock.training.grpo.worker import RolloutWorker, WorkerSettings

SIZE, TOKEN = 4, "geheim"
FAST = {"first_retry_s": 0.05, "max_retry_s": 0.1, "health_interval_s": 0.1, "health_timeout_s": 0.5}
NAME = "policy_model"


@pytest.fixture
def fake_vllm(tmp_path: Path) -> FakeVllm:
    return FakeVllm(tmp_path)


def composed(folder: Path, **model: Any) -> Config:
    tokenizer = write_model_folder(folder / "model")
    refers = {
        "resources_server": {"type": "resources_servers", "name": "environment"},
        "model_server": {"type": "models_servers", "name": NAME},
    }
    own = {"model": "scripted", "tokenizer": str(tokenizer), "chat_template": "thinking", **FAST, **model}
    tree = {
        "environment": {"resources_servers": {"paddock.conformance.scripted:ScriptedEnvironment": {}}},
        "agent": {"agents": {"single_step": refers}},
        NAME: {"models_servers": {"vllm": own}},
        "eval": {"retry_wait_s": 0, "max_attempts": 1},
    }
    return load([], extra=tree, servers=())


def rows_of(config: Config, folder: Path) -> IndexedRows:
    request = {"input": [{"role": "user", "content": "q"}], "temperature": 1.0}
    (folder / "rows.jsonl").write_bytes(orjson.dumps({"responses_create_params": request, "answer": "yes"}) + b"\n")
    return IndexedRows(config, folder / "rows.jsonl", {})


class RunOfWorkers:
    """An engine host, and workers that have a model server each."""

    def __init__(self, host: EngineHost, config: Config, rows: IndexedRows) -> None:
        self.host = host
        self.workers: list[RolloutWorker] = []
        self._config = config
        self._rows = rows

    async def own_config(self, role: str) -> Config:
        address = await self.host.address()
        own = with_own_model_server(self._config, NAME, SharedEngines(address.url, address.token, role, 2))
        assert own is not None
        return own

    async def group(self, worker: RolloutWorker) -> tuple[Member, ...]:
        planned = self._rows.group(0, size=SIZE, epoch=0, run_id="run", sampling={})
        return (await worker.run_group(GroupJob(0, 0, 0), planned, 0)).group.members


@asynccontextmanager
async def run_of(folder: Path, *, workers: int = 2, **model: Any) -> AsyncIterator[RunOfWorkers]:
    config = composed(folder, **model)
    run = RunOfWorkers(EngineHost(config, NAME, "127.0.0.1", TOKEN), config, rows_of(config, folder))
    try:
        await run.host.start()
        for nth in range(workers):
            own = await run.own_config(f"rollouts-{nth}")
            run.workers.append(RolloutWorker(own, WorkerSettings(GrpoSettings(), GroupSettings())))
            await run.workers[-1].start()
        yield run
    finally:
        for worker in run.workers:
            await worker.stop()
        await run.host.stop()


def versions(members: tuple[Member, ...]) -> set[str | None]:
    return {span.weight_version for member in members for sample in member.samples for span in sample.spans}


@pytest.mark.slow
async def test_each_worker_records_exact_samples_with_the_versions_of_the_vllm(tmp_path: Path) -> None:
    async with ScriptedVllm(version="7") as vllm, run_of(tmp_path, base_url=vllm.url) as run:
        first = await asyncio.gather(*map(run.group, run.workers))
        vllm.version = "8"
        later = await asyncio.gather(*map(run.group, run.workers))
        assert len(vllm.bodies) == 4 * SIZE
    assert [versions(members) for members in (*first, *later)] == [{"7"}, {"7"}, {"8"}, {"8"}]
    assert all(len(member.samples) == 1 for members in (*first, *later) for member in members)


@pytest.mark.slow
async def test_a_vllm_that_is_killed_and_started_again_costs_no_rollout(tmp_path: Path, fake_vllm: FakeVllm) -> None:
    launch = fake_vllm.settings(restart_wait_s=0.05).model_dump(mode="json", exclude_unset=True)
    async with run_of(tmp_path, launch=launch) as run:
        await asyncio.gather(*map(run.group, run.workers))
        (before,) = await run.host.replicas()
        os.kill(fake_vllm.pids[0], signal.SIGKILL)
        groups = await asyncio.gather(*map(run.group, run.workers))
        (after,) = await run.host.replicas()
    assert [member.outcome for members in groups for member in members] == ["completed"] * 2 * SIZE
    assert (before.n_starts, after.n_starts) == (1, 2), "the trainer is told that it lacks the weights"


@pytest.mark.slow
async def test_a_worker_that_is_killed_in_mid_rollout_ends_its_sampling_and_no_others(tmp_path: Path) -> None:
    async with ScriptedVllm(chunk_delay_s=0.02) as vllm, run_of(tmp_path, workers=1, base_url=vllm.url) as run:
        (tmp_path / "own.yaml").write_text((await run.own_config("rollouts-1")).to_yaml())
        command = [sys.executable, "-m", "tests.training.grpo.run_worker", str(tmp_path / "own.yaml")]
        killed = await asyncio.create_subprocess_exec(*command, str(tmp_path / "rows.jsonl"), stdout=-1)
        try:
            assert killed.stdout is not None
            assert await asyncio.wait_for(killed.stdout.readline(), 30) == b"started\n"
            asked = len(vllm.bodies)
            async with asyncio.timeout(10):
                while len(vllm.bodies) < asked + SIZE:
                    await asyncio.sleep(0.01)
            going = asyncio.create_task(run.group(run.workers[0]))
            folder = turns_root() / f"{NAME}-{killed.pid}"
            assert folder.is_dir()
        finally:
            with suppress(ProcessLookupError):
                killed.kill()
            await killed.wait()
        async with asyncio.timeout(10):
            while vllm.cut_off < 1:
                await asyncio.sleep(0.01)
        assert {member.outcome for member in await going} == {"completed"}
        assert {member.outcome for member in await run.group(run.workers[0])} == {"completed"}


def test_workers_on_a_node_share_what_is_sampled_at_once_and_keep_turns_apart(tmp_path: Path) -> None:
    store = {"folder": str(tmp_path / "turns"), "max_age_s": 60.0}
    config = composed(tmp_path, base_url="http://127.0.0.1:9", max_concurrency=7, turn_store=store, port=8123)
    own = with_own_model_server(config, NAME, SharedEngines("http://127.0.0.1:8", TOKEN, "rollouts-1", 2))
    assert own is not None
    settings = engine_settings(own, NAME)
    assert own.instance(NAME).implementation.endswith(WorkerVllmServer.__name__)
    assert (settings.max_concurrency, settings.port, settings.base_url) == (4, None, None)
    assert settings.turn_store.folder == tmp_path / "turns" / "rollouts-1"
    assert settings.turn_store.max_age_s == 60.0
    assert TOKEN not in repr(settings)


def test_parsers_of_another_environment_of_python_keep_the_model_server_apart(tmp_path: Path) -> None:
    elsewhere = tmp_path / "venv" / "bin" / "python"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.symlink_to(sys.executable)
    engines = SharedEngines("http://127.0.0.1:8", TOKEN, "rollouts", 1)
    for python, near in ((elsewhere, False), (Path(sys.executable).with_name("python3"), True)):
        config = composed(tmp_path, base_url="http://127.0.0.1:9", python=str(python))
        assert (with_own_model_server(config, NAME, engines) is not None) is near
