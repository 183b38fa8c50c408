"""Weights sent to a real vLLM while answers are being sampled: no answer is cut, and each token is of its version."""

import asyncio
import json
import statistics
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import pytest_asyncio
from tests.sampling import few

from paddock.http import Call
from paddock.models_servers.vllm.engine import VllmEngine

if TYPE_CHECKING:
    from tests.models_servers.vllm.conftest import SmallVllm

SCRIPT = Path(__file__).parent / "train_in_flight.py"
PROMPTS = [list(range(20 + nth, 220 + nth)) for nth in range(6)]
"""Longer than a block of the cache, so that what a stale one does can be seen."""
TOKENS, BETWEEN = 900, 60
"""Of each answer; and those that all have to have before the first update, and from one to the next."""
MEAN, MAX = 2e-6, 1e-4
"""Float32 on one CPU against another implementation of the same model: five to ten times the worst that was seen."""
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),  # a start of vLLM on a busy machine is in it
]


class TransferAnswer(NamedTuple):
    ids: list[int]
    log_probs: list[float]
    spans: list[tuple[str | None, int, int]]
    finish_reason: str | None


class TrainerProcess:
    """The process of `train_in_flight.py`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def read(self) -> Any:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, "the trainer ended"
        return json.loads(line)

    async def tell(self, command: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        await self._process.stdin.drain()
        return await self.read()

    async def die(self, stage: str) -> None:
        assert self._process.stdin is not None
        command = {"send": "lost", "seed": 7, "query": {"mode": "keep"}, "die": stage}
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        assert await asyncio.wait_for(self._process.wait(), 60) == 9

    async def send(self, version: str, seed: int | None, **query: str) -> None:
        told = await self.tell({"send": version, "seed": seed, "query": {"mode": "keep", **query}})
        assert told == {"version": version}

    async def distances(self, answers: list[TransferAnswer]) -> list[float]:
        asked = [
            {"ids": prompt + one.ids, "prompt": len(prompt), "log_probs": one.log_probs, "spans": one.spans}
            for prompt, one in zip(PROMPTS, answers, strict=False)
        ]
        told = await self.tell({"score": asked})
        return [value for one in told["distances"] for value in one]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(small_vllm: "SmallVllm") -> AsyncIterator[VllmEngine]:
    async with small_vllm.engine(weight_transfer="gloo") as made:
        yield made


@asynccontextmanager
async def connected(engine: VllmEngine, small_vllm: "SmallVllm") -> AsyncIterator[TrainerProcess]:
    """A trainer; it may die."""
    process = engine.replicas.all[0].process
    assert process is not None
    argv = [small_vllm.python, str(SCRIPT), str(small_vllm.model), process.url]
    child = await asyncio.create_subprocess_exec(
        *argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=1 << 26, env=small_vllm.env
    )
    made = TrainerProcess(child)
    try:
        assert await made.read() == {"listening": ["127.0.0.1"]}
        yield made
    finally:
        assert child.stdin is not None
        child.stdin.close()
        assert await asyncio.wait_for(child.wait(), 60) in (0, 9)


@pytest_asyncio.fixture(loop_scope="module")
async def trainer(engine: VllmEngine, small_vllm: "SmallVllm") -> AsyncIterator[TrainerProcess]:
    """A new one for each test: a server outlives its trainers."""
    async with connected(engine, small_vllm) as made:
        await made.send("first", None)
        yield made


async def sampled(engine: VllmEngine, prompt: list[int], ids: list[int]) -> TransferAnswer:
    """One whole answer; `ids` fills while it comes."""
    log_probs: list[float] = []
    chunk = None
    params = {"max_tokens": TOKENS, "ignore_eos": True}
    async for chunk in engine.generate(prompt, params, Call(), rollout=None):
        ids += chunk.ids
        log_probs += chunk.log_probs
    assert chunk is not None
    spans = [(span.version, span.start, span.end) for span in chunk.versions]
    return TransferAnswer(ids, log_probs, spans, chunk.finish_reason)


async def in_flight(
    engine: VllmEngine, trainer: TrainerProcess, versions: list[str], **query: str
) -> list[TransferAnswer]:
    """Answers that were being sampled when the updates came."""
    ids: list[list[int]] = [[] for _ in PROMPTS]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(sampled(engine, *one)) for one in zip(PROMPTS, ids, strict=True)]
        for seed, version in enumerate(versions):
            due = max(map(len, ids)) + BETWEEN
            while min(map(len, ids)) < due:
                await asyncio.sleep(0.005)
            await trainer.send(version, seed, **query)
    return [task.result() for task in tasks]


def agree(distances: list[float]) -> bool:
    """Whether they are those of one policy."""
    return statistics.fmean(distances) < MEAN and max(distances) < MAX


async def test_updates_in_flight_cut_nothing_and_each_token_is_of_its_version(
    engine: VllmEngine, trainer: TrainerProcess
) -> None:
    answers = await in_flight(engine, trainer, ["second", "third"])
    for one in answers:
        assert (len(one.ids), one.finish_reason) == (TOKENS, "length")
        assert [version for version, _, _ in one.spans] == ["first", "second", "third"]
    assert agree(await trainer.distances(answers))
    swapped = [one._replace(spans=[("second", 0, TOKENS)]) for one in answers]
    assert not agree(await trainer.distances(swapped)), "the versions differ by more than the engines do"


async def test_a_new_answer_is_of_the_new_weights_also_where_its_prompt_was_cached(
    engine: VllmEngine, trainer: TrainerProcess
) -> None:
    before = await sampled(engine, PROMPTS[0], [])
    await trainer.send("second", 1)
    after = await sampled(engine, PROMPTS[0], [])
    assert [before.spans, after.spans] == [[("first", 0, TOKENS)], [("second", 0, TOKENS)]]
    for one in (before, after):
        assert agree(await trainer.distances([one]))


async def test_a_cache_of_old_weights_is_caught(engine: VllmEngine, trainer: TrainerProcess) -> None:
    """The agreement that the other tests measure is one that a wrong cache does not have."""
    answers = await in_flight(engine, trainer, ["second"], clear_cache="false")
    distances = await trainer.distances(answers)
    assert not agree(distances)
    assert statistics.fmean(distances) > 10 * MEAN


@pytest.mark.parametrize("stage", few(["sent", "loaded"], ["sent"], mark=pytest.mark.long))
async def test_what_a_trainer_left_that_died_in_an_update_is_not_mixed_into_the_next(
    engine: VllmEngine, small_vllm: "SmallVllm", trainer: TrainerProcess, stage: str
) -> None:
    """The answers that were being sampled wait for the next trainer, and go on."""
    ids: list[list[int]] = [[] for _ in PROMPTS]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(sampled(engine, *one)) for one in zip(PROMPTS, ids, strict=True)]
        while min(map(len, ids)) < BETWEEN:
            await asyncio.sleep(0.005)
        await trainer.die(stage)
        async with connected(engine, small_vllm) as second:
            await second.send("second", 1)
            answers = await asyncio.gather(*tasks)
            await second.tell({"version": "first", "seed": None})
            assert [version for version, _, _ in answers[0].spans] == ["first", "second"]
            assert agree(await second.distances(answers))


async def test_a_trainer_of_a_dead_server_is_told_at_once(small_vllm: "SmallVllm") -> None:
    argv = [small_vllm.python, str(SCRIPT), str(small_vllm.model), "http://127.0.0.1:9"]
    child = await asyncio.create_subprocess_exec(
        *argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=small_vllm.env
    )
    async with asyncio.timeout(100):
        _, err = await child.communicate()
    assert child.returncode != 0
    assert b"ConnectionError" in err or b"Connection refused" in err
