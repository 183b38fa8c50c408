"""A group of SWE rollouts whose policy is played: one is right, three are not, and one loses its sandbox.

Runs in this process, through the rollout worker of a training run, in real sandboxes.
"""

import asyncio
import os
import random
import time
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from tests.e2e.learning import swe

from paddock.collect.routing import acting, environment
from paddock.config import load
from paddock.conformance.sandboxes.fixture import processes_marked
from paddock.training.core.records import Group
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.rollouts import RowSettings, RunRollouts, RunRows, Sampler
from paddock.training.grpo.worker import RolloutWorker, WorkerSettings
from paddock.types import JsonObject, Row
from paddock.types.responses import call_item

PLAYED = "tests.e2e.learning.scripted_policy:ScriptedPolicyServer"
WAIT_S = 300.0
Play = list[list[JsonObject]]


class GroupEnd(NamedTuple):
    """What came of it."""

    group: Group
    left: list[Path]
    """Sandboxes that are there although the worker has stopped."""


def play(row: JsonObject, folder: Path) -> GroupEnd:
    """Four members that end, and one that is killed while its command runs; none is run anew."""
    mark = str(random.randrange(10**8, 10**9))
    plays = [_known_fix(row), *_failures(), [_shell(f"sleep {mark}", timeout=3600), FINISH]]
    of_others = set(swe.left_of([os.getpid()]))
    group = asyncio.run(_run(folder, row, plays, mark))
    return GroupEnd(group, [left for left in swe.left_of([os.getpid()]) if left not in of_others])


async def _run(folder: Path, row: JsonObject, plays: list[Play], mark: str) -> Group:
    rows = folder / "rows.jsonl"
    rows.write_bytes(orjson.dumps(row))
    policy = {"plays": plays, "turn_store": {"folder": str(folder / "turns")}}
    tree = swe.servers({"agent": {}}) | {"eval": {"max_attempts": 1}}
    tree[swe.MODEL] = {"models_servers": {PLAYED: policy}}
    grpo, config = GrpoSettings(num_generations_per_prompt=len(plays)), load([], extra=tree)
    run_rows = RunRows.read(config, RowSettings("run", folder, rows, None, grpo))
    worker = RolloutWorker(config, WorkerSettings(grpo, GroupSettings(max_rerolls=0), model_server=swe.MODEL))
    rollouts = RunRollouts([Sampler(worker)], run_rows, folder)
    try:
        await worker.start()
        running = asyncio.create_task(rollouts.run_group(GroupJob(id=0, row=0, epoch=0), 0))
        await _kill(mark)
        return await running
    finally:
        await rollouts.stop()


async def _kill(mark: str) -> None:
    """The sandbox in which a command with that mark runs, once it does."""
    end = time.monotonic() + WAIT_S
    while not (found := set(await asyncio.to_thread(processes_marked, mark))):
        assert time.monotonic() < end, "its command did not start"
        await asyncio.sleep(0.1)
    own = swe.of_rollouts([os.getpid()])
    (one,) = (sandbox for sandbox in own if found & {process.pid for process in sandbox.processes()})
    one.kill()


def _known_fix(row: JsonObject) -> Play:
    """As the harness would make it."""
    config = load([], extra=swe.servers({"agent": {}}) | {swe.MODEL: {"models_servers": {"replay": {}}}})
    agent, world = acting(config, "agent"), environment(config, swe.ENVIRONMENT)
    return [list(turn) for turn in asyncio.run(agent.oracle(world, Row.from_wire(row)))]


def _failures() -> list[Play]:
    """Nothing changed, something that fixes nothing, and a package that can't be imported."""
    broken = "for file in $(git ls-files '*.py'); do echo 'raise RuntimeError' > $file; done"
    return [[FINISH], [_shell("echo as it was > NOTES.txt"), FINISH], [_shell(broken), FINISH]]


def _call(tool: str, **arguments: Any) -> list[JsonObject]:
    return [call_item(tool, orjson.dumps(arguments).decode())]


def _shell(command: str, **arguments: Any) -> list[JsonObject]:
    return _call("execute_bash", command=command, **arguments)


FINISH = _call("finish", message="Done.")
