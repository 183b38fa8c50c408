"""Rollouts of one step through our servers, buffer and batches, beside a bare loop over the same vLLM.

A program for the interpreter that has vLLM; `measure` starts it.

Ours is the rollout worker of a run: agent, pivot server and model server (in its process), journals, the buffer and
the step's batch. The floor is one asyncio loop: it renders and tokenises each prompt once, posts its ids raw to the
same vLLM as many times, reads the answer with a regular expression, scores it with the same comparator, writes a line,
and keeps ids, mask, log-probs and advantage. Both have all rollouts of a step in flight.
CPU     of this process and, for ours, of the model server that has started vLLM; not vLLM's, which is the same for
        both.
Target  less than 10 ms of CPU over the floor's in each rollout. How much longer a step lasts depends on how many cores
        vLLM leaves: on two of them all three compete.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from secrets import token_urlsafe
from statistics import median
from typing import Any, NamedTuple

import orjson
import psutil
import uvloop

from benchmarks.training.bare_loop import BareLoop
from benchmarks.training.demo_task import CONFIG, DemoTask
from paddock.http.access import bearer
from paddock.http.transport import make_client
from paddock.ports import LOOPBACK
from paddock.server.loops import spare_collector
from paddock.training.core.batches import make_batch
from paddock.training.core.buffer import ReplayBuffer
from paddock.training.grpo.environment import EngineHost
from paddock.training.grpo.model_server import SharedEngines, with_own_model_server
from paddock.training.grpo.read_config import RunConfig, read_config
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.rollouts import RunRollouts, RunRows, Sampler
from paddock.training.grpo.rows import n_rows_of
from paddock.training.grpo.train import row_settings, worker_settings
from paddock.training.grpo.worker import RolloutWorker

PROMPTS = 16
MEMBERS = 16
ROUNDS = 7
Step = Callable[[], Awaitable["list[list[int]]"]]
"""Gives the prompts' ids, sorted."""


class StepMeasure(NamedTuple):
    """What one step took."""

    wall_s: float
    cpu_ms: float
    """Per rollout."""
    prompts: list[list[int]]


def measure(task: DemoTask) -> dict[str, Any]:
    command = [task.python, "-m", "benchmarks.training.overhead", str(task.folder)]
    figures: dict[str, Any] = orjson.loads(subprocess.check_output(command).splitlines()[-1])
    return figures


def main() -> None:
    task = DemoTask(sys.executable, Path(sys.argv[1]))
    spare_collector()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        pairs = runner.run(_pairs(task))
    rollouts = PROMPTS * MEMBERS
    figures = {
        "rollouts": rollouts,
        "wall_s": median(ours.wall_s for ours, _ in pairs),
        "floor_wall_s": median(floor.wall_s for _, floor in pairs),
        "ratio": median(ours.wall_s / floor.wall_s for ours, floor in pairs),
        "over_floor_ms_per_rollout": median((ours.wall_s - floor.wall_s) * 1e3 / rollouts for ours, floor in pairs),
        "cpu_ms_per_rollout": median(ours.cpu_ms for ours, _ in pairs),
        "floor_cpu_ms_per_rollout": median(floor.cpu_ms for _, floor in pairs),
        "over_floor_cpu_ms_per_rollout": median(ours.cpu_ms - floor.cpu_ms for ours, floor in pairs),
    }
    print(orjson.dumps(figures).decode())


async def _pairs(task: DemoTask) -> list[tuple[StepMeasure, StepMeasure]]:
    read = read_config(CONFIG, task.overrides(PROMPTS))
    engines = EngineHost(read.environment, read.model_server, LOOPBACK, token_urlsafe())
    await engines.start()
    address = await engines.address()
    own = with_own_model_server(
        read.environment, read.model_server, SharedEngines(address.url, address.token, "rollouts", 1)
    )
    if own is None:
        raise RuntimeError("not under the interpreter that has vLLM")
    worker = RolloutWorker(own, worker_settings(read))
    rows = RunRows.read(read.environment, row_settings(read.config, task.folder))
    rollouts = RunRollouts([Sampler(worker, engines)], rows, task.folder)
    await worker.start()
    try:
        async with make_client(max_connections=PROMPTS * MEMBERS) as client:
            described = await client.get(f"{address.url}/replicas", headers=bearer(address.token))
            url = described.json()["replicas"][0]["url"]
            # As after a first sending: batches leave out what was sampled by weights without a number.
            answer = await client.post(f"{url}/update_weight_version", json={"new_version": "0"})
            answer.raise_for_status()
            bare = BareLoop(task.model, task.rows, url, task.folder / "bare.jsonl")
            ours = WorkerLoop(rollouts, read)
            await _measure(ours.step)
            await _measure(lambda: _prompts(bare))
            return [await _pair(ours, bare) for _ in range(ROUNDS)]
    finally:
        await rollouts.stop()


async def _pair(ours: "WorkerLoop", bare: "BareLoop") -> tuple[StepMeasure, StepMeasure]:
    pair = await _measure(ours.step), await _measure(lambda: _prompts(bare))
    if pair[0].prompts != pair[1].prompts:
        raise RuntimeError("ours and the bare loop sent other prompts")
    return pair


async def _prompts(bare: BareLoop) -> list[list[int]]:
    samples = await bare.sample(0, prompts=PROMPTS, members=MEMBERS)
    return sorted(one.ids[: one.prompt_tokens] for one in samples)


async def _measure(step: Step) -> StepMeasure:
    family = [psutil.Process(), *_servers()]
    cpu, started = _cpu_s(family), time.perf_counter()
    prompts = await step()
    wall_s = time.perf_counter() - started
    return StepMeasure(wall_s, (_cpu_s(family) - cpu) * 1e3 / (PROMPTS * MEMBERS), prompts)


def _servers() -> list[psutil.Process]:
    """Our servers that have a process of their own."""
    below = psutil.Process().children(recursive=True)
    return [one for one in below if "paddock.server.child" in one.cmdline()]


def _cpu_s(processes: list[psutil.Process]) -> float:
    return sum(times.user + times.system for times in (one.cpu_times() for one in processes))


class WorkerLoop:
    """The rollout worker of a run, with buffer and batch."""

    def __init__(self, rollouts: RunRollouts, read: RunConfig) -> None:
        self._rollouts = rollouts
        self._config = read.config
        self._n_rows = n_rows_of(read.config)
        self._n_started = 0

    async def step(self) -> list[list[int]]:
        buffer = ReplayBuffer()

        async def run_group(nth: int) -> None:
            work = GroupJob(self._n_started + nth, nth % self._n_rows, nth // self._n_rows)
            buffer.put(await self._rollouts.run_group(work, 0))

        await asyncio.gather(*map(run_group, range(PROMPTS)))
        self._n_started += PROMPTS
        batch = make_batch(
            buffer.groups,
            step=0,
            grpo=self._config.grpo,
            settings=self._config.paddock.groups,
            max_length=self._config.policy.max_total_sequence_length,
            known_versions=(0,),
        )
        if len(batch.rows) != PROMPTS * MEMBERS:
            raise RuntimeError(f"{len(batch.rows)} rows: {batch.masked[:3]}")
        return sorted(row.ids[: row.loss_mask.argmax()].tolist() for row in batch.rows)


if __name__ == "__main__":
    main()
