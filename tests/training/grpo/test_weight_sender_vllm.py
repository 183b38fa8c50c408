"""The policy and a real vLLM: weights are sent while it samples; both agree about every token of a known version.

What `.ci/run` has of it: `tests/models_servers/vllm/test_transfer.py` sends to an engine that samples,
`tests/e2e/test_training_swe.py` has a policy and an engine agree in a whole run.
"""

import asyncio
import json
import os
import random
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from paddock.http import Call
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.engine import VllmEngine

ROOT = Path(__file__).resolve().parents[3]
PROMPTS = [list(range(20 + nth, 220 + nth)) for nth in range(4)]
"""Longer than a block of the cache, so that what a stale one does can be seen."""
TOKENS, BEFORE = 400, 60
MEAN, MAX = 2e-6, 1e-4
"""Float32 on one CPU against another implementation of the same model: five to ten times the worst that was seen."""
pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]


class PolicyProcess:
    """The process of `policy_by_lines.py`, and the version of its weights."""

    def __init__(self, process: asyncio.subprocess.Process, engine: VllmEngine) -> None:
        self._process = process
        self._engine = engine
        self.version = 0

    async def tell(self, command: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        await self._process.stdin.drain()
        line = await self._process.stdout.readline()
        assert line, "the policy ended"
        return json.loads(line)

    async def send(self, *, clear_cache: bool = True, url: str | None = None) -> Any:
        process = self._engine.replicas.all[0].process
        assert process is not None
        replicas = [["policy-0", url or process.url, 0]]
        return await self.tell({"send": self.version, "replicas": replicas, "clear_cache": clear_cache})

    async def train(self, rows: Sequence[Any]) -> Any:
        told = await self.tell({"train": self.version, "rows": list(rows)})
        self.version += 1
        return told


@pytest.fixture(scope="module")
def model(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sending") / "model"
    command = [vllm_python, str(ROOT / "scripts" / "tiny_model.py"), str(folder), "--steps", "0"]
    subprocess.run(command, check=True, timeout=400, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(model: Path, vllm_python: str) -> AsyncIterator[VllmEngine]:
    launch = {"kv_cache_gib": 1, "max_model_len": 2048, "max_num_seqs": 16, "dtype": "float32", "enforce_eager": True}
    place = {"python": vllm_python, "folder": model.parent / "logs", "weight_transfer": "gloo"}
    block = {"model": str(model), "launch": {**launch, **place}, "health_timeout_s": 60.0}
    made = VllmEngine(VllmConfig.model_validate(block), name="policy")
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


COLOCATED_LORA = {
    "dtensor_cfg": {"lora_cfg": {"enabled": True, "dim": 4}},
    "generation": {"colocated": {"enabled": True}},
    "optimizer": {"kwargs": {"lr": 1e-2}},
}


@pytest_asyncio.fixture(loop_scope="module")
async def policy(
    engine: VllmEngine, model: Path, vllm_python: str, request: pytest.FixtureRequest
) -> AsyncIterator[PolicyProcess]:
    """A new one for each test: a server outlives its trainers."""
    script = str(Path(__file__).parent / "policy_by_lines.py")
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    child = await asyncio.create_subprocess_exec(
        *(vllm_python, script, str(model), json.dumps(getattr(request, "param", {}))),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        limit=1 << 26,
        env=env,
    )
    try:
        yield PolicyProcess(child, engine)
    finally:
        assert child.stdin is not None
        child.stdin.close()
        assert await asyncio.wait_for(child.wait(), 120) == 0


async def sampled(engine: VllmEngine, nth: int, ids: list[int]) -> dict[str, Any]:
    """One whole answer as a row; `ids` fills while it comes."""
    prompt, log_probs, chunk = PROMPTS[nth], list[float](), None
    async for chunk in engine.generate(prompt, {"max_tokens": TOKENS, "ignore_eos": True}, Call(), rollout=None):
        ids += chunk.ids
        log_probs += chunk.log_probs
    assert chunk is not None
    at = len(prompt)
    advantage = random.Random(nth).choice([-1.0, 1.0])
    return {
        "group": 0,
        "member": nth,
        "sample": 0,
        "ids": prompt + ids,
        "loss_mask": [0] * at + [1] * len(ids),
        "generation_log_probs": [0.0] * at + log_probs,
        "advantages": [0.0] * at + [advantage] * len(ids),
        "versions": [[at + span.start, at + span.end, int(span.version or -1)] for span in chunk.versions],
    }


async def in_flight(engine: VllmEngine, policy: PolicyProcess, **how: Any) -> list[dict[str, Any]]:
    """Answers in the middle of which the weights came."""
    ids: list[list[int]] = [[] for _ in PROMPTS]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(sampled(engine, nth, own)) for nth, own in enumerate(ids)]
        while min(map(len, ids)) < BEFORE:
            await asyncio.sleep(0.005)
        assert (await policy.send(**how))["replicas"] == ["policy-0"]
    return [task.result() for task in tasks]


def error(told: Any, of: str = "current") -> tuple[float, float]:
    return told[f"train/logprob_error/{of}/mean_abs"], told[f"train/logprob_error/{of}/max_abs"]


async def test_trainer_and_engine_agree_about_tokens_of_the_step_s_weights(
    engine: VllmEngine, policy: PolicyProcess
) -> None:
    sent = await policy.send()
    assert (sent["version"], sent["replicas"], sent["failed"]) == (0, ["policy-0"], {})
    rows = [await sampled(engine, nth, []) for nth in range(2)]
    assert [version for row in rows for _, _, version in row["versions"]] == [0, 0]
    first = await policy.train(rows)
    assert error(first) == error(first, "all")
    both = await in_flight(engine, policy)
    assert [[version for _, _, version in row["versions"]] for row in both] == [[0, 1]] * len(PROMPTS)
    second = await policy.train(both)
    for told in (first, second):
        mean, most = error(told)
        assert mean < MEAN
        assert most < MAX
    assert error(second, "all")[0] > 10 * MEAN, "tokens of older weights are others"


async def test_a_cache_that_was_not_cleared_shows_in_the_agreement(engine: VllmEngine, policy: PolicyProcess) -> None:
    await policy.send()
    await policy.train([await sampled(engine, nth, []) for nth in range(2)])
    told = await policy.train(await in_flight(engine, policy, clear_cache=False))
    assert error(told)[0] > 10 * MEAN


async def test_a_dead_engine_is_named_and_a_live_one_goes_on(engine: VllmEngine, policy: PolicyProcess) -> None:
    sent = await policy.send(url="http://127.0.0.1:9")
    assert sent["replicas"] == []
    assert "127.0.0.1:9" in sent["failed"]["policy-0"]
    assert (await policy.send())["replicas"] == ["policy-0"]


async def is_sleeping(engine: VllmEngine) -> bool:
    process = engine.replicas.all[0].process
    assert process is not None
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"{process.url}/is_sleeping")
    return bool(answer.json()["is_sleeping"])


@pytest.mark.parametrize("policy", [COLOCATED_LORA], indirect=True)
async def test_with_adapters_and_in_turns_trainer_and_engine_agree_at_every_step(
    engine: VllmEngine, policy: PolicyProcess
) -> None:
    norms = []
    for version in range(3):
        assert (await policy.send())["replicas"] == ["policy-0"]
        assert not await is_sleeping(engine)
        rows = [await sampled(engine, nth, []) for nth in range(2)]
        assert {span[2] for row in rows for span in row["versions"]} == {version}
        told = await policy.train(rows)
        assert await is_sleeping(engine), "until it is sent weights"
        mean, most = error(told)
        assert mean < MEAN
        assert most < MAX
        norms.append(told["train/grad_norm"])
    assert min(norms) > 0
    assert (await policy.send(url="http://127.0.0.1:9"))["replicas"] == []
    assert await is_sleeping(engine)
    assert (await policy.send())["failed"] == {}
    assert not await is_sleeping(engine)
