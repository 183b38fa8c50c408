"""Rollouts through `paddock.open_rollouts` beside a bare loop over the same servers; the engine answers at once.

Bare    an asyncio loop that runs attempts on the same agent, environment and model server, all members of a group at
        once, and makes samples of each rollout.
Ours    groups of a stream, which is read as fast as it comes, from the trainer's thread.
CPU     of the whole process, divided by the rollouts.
Target  at most 1.3 times the bare loop's CPU per rollout.
Workers the same with rollouts in 2 worker processes: groups per second, CPU of the trainer's process alone, and that
        of all. Two workers on two idle cores are as fast as the trainer's process leaves them.
Memory  what the process holds more with 1,000 rollouts in flight, each in the middle of its first answer.
"""

import asyncio
import gc
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from paddock.collect import EvalSettings
from paddock.collect.attempts import Attempts
from paddock.collect.routing import Router
from paddock.config import Config, load
from paddock.rollouts import Completion, RolloutOptions, open_rollouts
from paddock.rollouts.client import FUNCTION, with_model_server
from paddock.rollouts.planned_rows import group_stamp, planned_group
from paddock.rollouts.runner import NoJournal
from paddock.server.exact.functions import registered
from paddock.server.loops import loop_factory
from paddock.server.runtime import open_runtime
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary, write_model_folder
from paddock.tokens.export import rollout_samples
from paddock.types import JsonObject

GROUPS, SIZE, ROUNDS = 40, 8, 7
IN_FLIGHT = 1000
WORKERS = 2
SCRIPTED = "paddock.conformance.scripted:ScriptedEnvironment"
_IDS: list[int] = []


async def _yes(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
    return Completion(_IDS, [-0.5] * len(_IDS), "stop", 1)


def run() -> JsonObject:
    with TemporaryDirectory() as folder:
        model = write_model_folder(Path(folder), chat_template=TEMPLATES["chatml"].source)
        vocabulary = small_vocabulary()
        _IDS[:] = [*vocabulary.encode("yes"), *vocabulary.encode("<|im_end|>")]
        settings = {"tokenizer": str(model)}
        config = _config()
        bare, ours, spread = [], [], []
        for _ in range(ROUNDS):
            bare.append(_measured(lambda: _bare(config, settings)))
            ours.append(_measured(lambda: _ours(config, settings)))
            spread.append(_measured(lambda: _ours(config, settings, workers=WORKERS)))
        ratios = [one["cpu_ms"] / other["cpu_ms"] for one, other in zip(ours, bare, strict=True)]
        return {
            "bare_cpu_ms_per_rollout": median(one["cpu_ms"] for one in bare),
            "cpu_ms_per_rollout": median(one["cpu_ms"] for one in ours),
            "cpu_ratio": median(ratios),
            "bare_groups_per_s": median(one["groups_per_s"] for one in bare),
            "groups_per_s": median(one["groups_per_s"] for one in ours),
            f"groups_per_s_{WORKERS}_workers": median(one["groups_per_s"] for one in spread),
            f"trainer_cpu_ms_per_rollout_{WORKERS}_workers": median(one["cpu_ms"] for one in spread),
            f"all_cpu_ms_per_rollout_{WORKERS}_workers": median(one["all_cpu_ms"] for one in spread),
            "load": psutil.getloadavg()[0],
            "kib_per_rollout_in_flight": _memory(config, settings),
        }


def _config() -> Config:
    refers = {
        "resources_server": {"type": "resources_servers", "name": "environment"},
        "model_server": {"type": "models_servers", "name": "policy_model"},
    }
    tree = {
        "environment": {"resources_servers": {SCRIPTED: {}}},
        "agent": {"agents": {"single_step": refers}},
        "policy_model": {"models_servers": {"function": {"function": "json:loads", "tokenizer": "none"}}},
    }
    return load([], extra=tree, servers=())


def _row() -> JsonObject:
    return {"responses_create_params": {"input": [{"role": "user", "content": "Yes or no?"}]}, "answer": "yes"}


def _measured(work: Callable[[], Callable[[], None]]) -> dict[str, float]:
    """CPU and speed of what `work` gives, which it has set up; it is called a first time for nothing."""
    timed = work()
    timed()
    gc.collect()
    cpu, below, began = time.process_time(), _cpu_below(), time.perf_counter()
    timed()
    took = time.perf_counter() - began
    spent, others = time.process_time() - cpu, _cpu_below() - below
    timed(end=True)  # type: ignore[call-arg]
    n_rollouts = GROUPS * SIZE
    return {
        "cpu_ms": 1000 * spent / n_rollouts,
        "all_cpu_ms": 1000 * (spent + others) / n_rollouts,
        "groups_per_s": GROUPS / took,
    }


def _cpu_below() -> float:
    """CPU seconds of this process's children and theirs."""
    times = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return sum(one.user + one.system for one in times)


def _ours(config: Config, settings: JsonObject, *, workers: int = 1) -> Any:
    options = RolloutOptions(workers=workers)
    rollouts = open_rollouts(config, engine=_yes, engine_settings=settings, options=options)

    def work(*, end: bool = False) -> None:
        if end:
            rollouts.close()
            return
        groups = list(rollouts.groups([_row()] * GROUPS, SIZE))
        assert len(groups) == GROUPS
        assert all(group.rewards == [1.0] * SIZE for group in groups)

    return work


def _bare(config: Config, settings: JsonObject) -> Any:
    runner = asyncio.Runner(loop_factory=loop_factory())
    registration = registered(_yes)
    composed = with_model_server(config, "policy_model", FUNCTION, {**settings, "function": registration.name})
    router = Router(composed)
    context = open_runtime(composed, names=list(router.agents))
    runtime = runner.run(context.__aenter__())
    attempts = Attempts(runtime.peers, NoJournal(), EvalSettings())

    async def group(index: int) -> list[float | None]:
        wire = {**_row(), **group_stamp("bare", SIZE), "_ng_task_index": index}
        planned = planned_group(wire, router, number=index, size=SIZE)
        ended = await asyncio.gather(*(attempts.run_member(planned, nth, 0) for nth in range(SIZE)))
        records = [member.rollout for member in ended if member.rollout is not None]
        samples = [list(rollout_samples(record, "branch")) for record in records]
        assert all(samples)
        return [record.reward for record in records]

    async def all_groups() -> None:
        # As many at once as ours has by default.
        room = asyncio.Semaphore(RolloutOptions().max_rollouts // SIZE)

        async def one(index: int) -> list[float | None]:
            async with room:
                return await group(index)

        rewards = await asyncio.gather(*(one(index) for index in range(GROUPS)))
        assert rewards == [[1.0] * SIZE] * GROUPS

    def work(*, end: bool = False) -> None:
        if not end:
            runner.run(all_groups())
            return
        runner.run(context.__aexit__(None, None, None))
        runner.close()
        registration.close()

    return work


def _memory(config: Config, settings: JsonObject) -> float:
    """KiB that each rollout in flight adds to the process."""
    started, go_on = 0, asyncio.Event()

    async def engine(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> Completion:
        nonlocal started
        started += 1
        await go_on.wait()
        return Completion(_IDS, [-0.5] * len(_IDS), "stop", 1)

    async def measure() -> float:
        options = RolloutOptions(max_rollouts=IN_FLIGHT)
        async with open_rollouts(config, engine=engine, engine_settings=settings, options=options) as rollouts:
            gc.collect()
            before = psutil.Process().memory_info().rss
            task = asyncio.ensure_future(_read(rollouts.groups([_row()] * (IN_FLIGHT // SIZE), SIZE)))
            while started < IN_FLIGHT:
                await asyncio.sleep(0.05)
            held = psutil.Process().memory_info().rss - before
            go_on.set()
            assert await task == IN_FLIGHT // SIZE
            return held / 1024 / IN_FLIGHT

    async def _read(stream: Any) -> int:
        return len([group async for group in stream])

    return asyncio.run(measure())
