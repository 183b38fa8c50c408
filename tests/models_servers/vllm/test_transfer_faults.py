"""Two real vLLMs are sent weights at once, by memory that all share: one that dies or hangs in the middle is left out,
the other samples on."""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest
import pytest_asyncio

from paddock.models_servers.vllm.engine import VllmEngine

if TYPE_CHECKING:
    from tests.models_servers.vllm.conftest import SmallVllm

SCRIPT = Path(__file__).parent / "send_to_many.py"
TIMEOUT_S, SLACK_S = 10.0, 20.0
"""As the script has it; and what a busy machine takes beside it."""
PROMPT = list(range(20, 80))
LONG_TOKENS = 3000
"""Of an answer that is being sampled all the while."""
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1500),  # starts of vLLM on a busy machine are in it
]


class ManyTrainer:
    """The process of `send_to_many.py`, and the engines."""

    def __init__(self, process: asyncio.subprocess.Process, engine: VllmEngine, model: str) -> None:
        self._process = process
        self._model = model
        self.engine = engine
        self.version = 0
        self.starts = [0, 0]

    async def send(self, signalled: list[int] | None = None) -> Any:
        self.version += 1
        replicas = [[f"policy-{nth}", self.url(nth), self.starts[nth]] for nth in range(2)]
        command = {"version": self.version, "replicas": replicas, "signal": signalled}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        await self._process.stdin.drain()
        line = await self._process.stdout.readline()
        assert line, "the trainer ended"
        return json.loads(line)

    def url(self, nth: int) -> str:
        process = self.engine.replicas.all[nth].process
        return process.url if process is not None else "http://127.0.0.1:9"

    def core(self, nth: int) -> int:
        """The process that computes."""
        process = self.engine.replicas.all[nth].process
        assert process is not None
        family = psutil.Process(process.pid).children(recursive=True)
        return next((one.pid for one in family if "EngineCore" in " ".join(one.cmdline())), family[-1].pid)

    async def answer(self, nth: int, tokens: int = 8) -> tuple[str, list[float]]:
        """The label of the weights, and what they make of a prompt."""
        body = {"model": self._model, "prompt": PROMPT, "max_tokens": tokens, "ignore_eos": True}
        sampling = {"temperature": 0, "logprobs": 1}
        async with httpx.AsyncClient(base_url=self.url(nth), timeout=120) as client:
            key = {"Authorization": "Bearer geheim"}
            label = (await client.get("/weight_info")).json()["weight_version"]
            answer = await client.post("/v1/completions", json={**body, **sampling}, headers=key)
        assert answer.status_code == 200, answer.text
        return label, answer.json()["choices"][0]["logprobs"]["token_logprobs"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def trainer(small_vllm: "SmallVllm") -> AsyncIterator[ManyTrainer]:
    async with small_vllm.engine(weight_transfer="gloo", replicas=2) as engine:
        child = await asyncio.create_subprocess_exec(
            *(small_vllm.python, "-P", str(SCRIPT), str(small_vllm.model)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=small_vllm.env,
        )
        try:
            yield ManyTrainer(child, engine, str(small_vllm.model))
        finally:
            assert child.stdin is not None
            child.stdin.close()
            assert await asyncio.wait_for(child.wait(), 120) == 0


async def test_both_get_the_same_weights_at_once(trainer: ManyTrainer) -> None:
    first = await trainer.send()
    assert (first["replicas"], first["failed"], first["gloo"]) == (["policy-0", "policy-1"], {}, 0)
    before = await trainer.answer(0)
    assert before == await trainer.answer(1)
    assert (await trainer.send())["failed"] == {}
    after = await trainer.answer(0)
    assert after == await trainer.answer(1)
    assert (before[0], after[0]) == ("1", "2")
    assert before[1] != after[1]


async def test_one_that_hangs_is_left_out_in_time_samples_on_and_gets_the_next_ones(trainer: ManyTrainer) -> None:
    core = trainer.core(0)
    await trainer.send()  # later ones are quick, and the answer is not at its end when they come
    answer = asyncio.create_task(trainer.answer(0, LONG_TOKENS))
    await asyncio.sleep(0.5)
    try:
        sent = await trainer.send([core, signal.SIGSTOP])
        assert (sent["replicas"], list(sent["failed"])) == (["policy-1"], ["policy-0"])
        assert sent["took_s"] < 2 * TIMEOUT_S + SLACK_S
        assert (await trainer.answer(1))[0] == str(trainer.version)
        assert (await trainer.send())["replicas"] == ["policy-1"], "a paused call of it is still to be answered"
    finally:
        psutil.Process(core).send_signal(signal.SIGCONT)
    assert not answer.done()
    assert len((await answer)[1]) == LONG_TOKENS, "half of the weights are others, and it goes on"
    async with asyncio.timeout(120):
        while (await trainer.send())["failed"]:
            await asyncio.sleep(0.5)
    assert await trainer.answer(0) == await trainer.answer(1)


async def test_one_that_is_killed_is_left_out_and_comes_back_to_the_current_weights(trainer: ManyTrainer) -> None:
    replica = trainer.engine.replicas.all[1]
    sent = await trainer.send([trainer.core(1), signal.SIGKILL])
    assert (sent["replicas"], list(sent["failed"])) == (["policy-0"], ["policy-1"])
    assert sent["took_s"] < TIMEOUT_S + SLACK_S
    assert (await trainer.answer(0))[0] == str(trainer.version)
    for state in ("down", "ready"):
        async with asyncio.timeout(600):
            while replica.state != state:
                await asyncio.sleep(0.05)
    trainer.starts[1] += 1
    assert (await trainer.send())["failed"] == {}
    assert await trainer.answer(0) == await trainer.answer(1)
