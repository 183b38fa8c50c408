"""Programs judged a second and their CPU, beside NeMo-Gym's code_gen in the same run.

Programs of `make_rows`, eight tests each: two of three are right, the others fail in their first test or do not
compile.
Ours     `CodeServer.verify`, as many at once as it allows: a sandbox for each program, a process for each test.
Empty    as many sandboxes, started and stopped with nothing run in them: the least that ours can take.
Theirs   its own function, two at a time, without Ray: all tests in one process without a sandbox. Needs
         PADDOCK_NEMO_GYM_PYTHON (scripts/setup_nemo_gym.sh); left out without it.
CPU      of this process and its children, sandboxes included; not of a runtime's program, whose end hides it.
Needs    the image of the default config.
"""

import asyncio
import json
import os
import subprocess
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.processes import family_cpu_s
from paddock.resources_servers.code import CodeServer, make_rows
from paddock.resources_servers.code.server import CodeConfig
from paddock.sandbox import SandboxSpec
from paddock.sandbox.leases import shared_provider
from paddock.types import JsonObject, Row
from paddock.types.responses import make_response, message_item

N_PROGRAMS = 60
GYM = Path("tests/resources_servers/code/gym_verdicts.py").resolve()


class CodeAnswer(NamedTuple):
    tests: JsonObject
    program: str


def run() -> dict[str, Any]:
    answers = [_answer(number) for number in range(N_PROGRAMS)]
    figures: dict[str, Any] = {"ours": asyncio.run(_ours(answers)), "empty": asyncio.run(_empty())}
    python = os.environ.get("PADDOCK_NEMO_GYM_PYTHON")
    if python:
        figures["nemo_gym"] = theirs = _theirs(python, answers)
        figures["ratio"] = figures["ours"]["per_s"] / theirs["per_s"]
        figures["cpu_ratio"] = theirs["cpu_ms"] / figures["ours"]["cpu_ms"]
    return figures


def _answer(number: int) -> CodeAnswer:
    made = make_rows.make_row(13, number)
    program = made["solution"]
    if number % 3 == 2:
        program = f"{program}\n)" if number % 2 else f"raise SystemExit\n{program}"
    return CodeAnswer(made["verifier_metadata"]["unit_tests"], program)


async def _ours(answers: Sequence[CodeAnswer]) -> dict[str, float]:
    server = CodeServer(CodeConfig(), name="code", peers={})
    await server.start()

    async def one(answer: CodeAnswer) -> float:
        task = {"verifier_metadata": {"unit_tests": answer.tests}}
        row = Row(responses_create_params={"input": "?"}, task=task)
        response = make_response([message_item(f"```python\n{answer.program}\n```")], {}, model="x")
        return (await server.verify(server.read_task(row), row, response)).reward

    try:
        await one(answers[0])
        before, started = family_cpu_s(), time.perf_counter()
        rewards = await asyncio.gather(*map(one, answers))
        wall_s, cpu_s = time.perf_counter() - started, family_cpu_s() - before
    finally:
        await server.stop()
    return {
        "per_s": len(answers) / wall_s,
        "cpu_ms": cpu_s * 1e3 / len(answers),
        "reward": sum(rewards) / len(rewards),
    }


async def _empty() -> dict[str, float]:
    config = CodeConfig()
    lease = await shared_provider(config.sandbox)
    provider, turns = lease.value, asyncio.Semaphore(config.max_concurrent_sandboxes)
    spec = SandboxSpec(image=config.image, limits=config.limits.of_sandbox(8), purpose="grading")

    async def one() -> None:
        async with turns:
            handle = await provider.create(spec, request_id=uuid.uuid4().hex)
            await provider.destroy(handle.sandbox_id)

    try:
        await one()
        before, started = family_cpu_s(), time.perf_counter()
        await asyncio.gather(*(one() for _ in range(N_PROGRAMS)))
        wall_s, cpu_s = time.perf_counter() - started, family_cpu_s() - before
    finally:
        await lease.release()
    return {"per_s": N_PROGRAMS / wall_s, "cpu_ms": cpu_s * 1e3 / N_PROGRAMS}


def _theirs(python: str, answers: Sequence[CodeAnswer]) -> dict[str, float]:
    pairs = json.dumps([[answer.tests, answer.program] for answer in answers])
    done = subprocess.run([python, str(GYM)], input=pairs, capture_output=True, text=True, check=True)
    *_, last, took_line = done.stdout.splitlines()
    rewards, took = json.loads(last), json.loads(took_line)
    return {
        "per_s": len(answers) / took["wall_s"],
        "cpu_ms": took["cpu_s"] * 1e3 / len(answers),
        "reward": sum(rewards) / len(rewards),
    }
