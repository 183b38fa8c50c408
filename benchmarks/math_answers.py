"""Verifications of math answers a second and their CPU, beside NeMo-Gym's math_with_judge in the same run.

Answers  to rows of `make_rows`, half of them right, most in another form than the row's; `numbers`: the rows' integers.
Ours     `MathServer.verify`, 64 at once; nothing is remembered (`max_cached_verdicts: 0`). `group`: 16 rollouts of each
         row with four different answers, as GRPO has them, and with what the server remembers. CPU is that of this
         process and of its children.
Theirs   its own function as its server runs it, a process for each answer, 32 at once (`should_use_judge: false`), over
         the first of the same answers. Needs PADDOCK_NEMO_GYM_PYTHON (scripts/setup_nemo_gym.sh); left out without it.
Target   at least 5 times their rate.
"""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.processes import family_cpu_s
from paddock.resources_servers.math import MathServer, make_rows
from paddock.resources_servers.math.server import MathConfig
from paddock.types import Row
from paddock.types.responses import make_response, message_item

N_ROWS = 600
N_THEIRS = 60
AT_ONCE = 64
GYM = Path("tests/resources_servers/math/gym_verdicts.py").resolve()


class MathAnswer(NamedTuple):
    row: Row
    expected: str
    text: str


def run() -> dict[str, Any]:
    mixed = [_answer(number, 0) for number in range(N_ROWS)]
    numbers = [answer for answer in mixed if answer.expected.lstrip("-").isdigit()]
    group = [_answer(number, member % 4) for number in range(N_ROWS // 8) for member in range(16)]
    figures: dict[str, Any] = {
        "mixed": asyncio.run(_ours(mixed, remembered=0)),
        "numbers": asyncio.run(_ours(numbers * 8, remembered=0)),
        "group": asyncio.run(_ours(group, remembered=10_000)),
    }
    python = os.environ.get("PADDOCK_NEMO_GYM_PYTHON")
    if python:
        figures["nemo_gym"] = theirs = _theirs(python, mixed[:N_THEIRS])
        for name in ("mixed", "numbers", "group"):
            figures[name]["ratio"] = figures[name]["per_s"] / theirs["per_s"]
            figures[name]["cpu_ratio"] = theirs["cpu_ms"] / figures[name]["cpu_ms"]
    return figures


def _answer(number: int, form: int) -> MathAnswer:
    made = make_rows.make_row(11, number)
    expected = made["expected_answer"]
    other = make_rows.make_row(11, number + 10)["expected_answer"]
    given = (f"x = {expected}", other, f"{expected} \\text{{ units}}", f"{other}.0")[(number + form) % 4]
    task = {key: made[key] for key in ("question", "expected_answer")}
    row = Row(responses_create_params=made["responses_create_params"], task=task)
    return MathAnswer(row, expected, f"We compute.\n\nSo the answer is $\\boxed{{{given}}}$.")


async def _ours(answers: Sequence[MathAnswer], remembered: int) -> dict[str, float]:
    server = MathServer(MathConfig(max_cached_verdicts=remembered), name="math", peers={})
    started = time.perf_counter()
    await server.start()
    ready_s = time.perf_counter() - started
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(answer: MathAnswer) -> float:
        async with slots:
            response = make_response([message_item(answer.text)], {}, model="x")
            return (await server.verify(server.read_task(answer.row), answer.row, response)).reward

    try:
        await asyncio.gather(*map(one, answers[:32]))  # the library is loaded, the processes are there
        before, started = family_cpu_s(), time.perf_counter()
        rewards = await asyncio.gather(*map(one, answers))
        wall_s, cpu_s = time.perf_counter() - started, family_cpu_s() - before
    finally:
        await server.stop()
    return {
        "per_s": len(answers) / wall_s,
        "cpu_ms": cpu_s * 1e3 / len(answers),
        "reward": sum(rewards) / len(rewards),
        "start_s": ready_s,
    }


def _theirs(python: str, answers: Sequence[MathAnswer]) -> dict[str, float]:
    pairs = json.dumps([[answer.expected, answer.text] for answer in answers])
    argv = [python, str(GYM), "served"]
    done = subprocess.run(argv, input=pairs, capture_output=True, text=True, check=True).stdout.splitlines()
    rewards, took = json.loads(done[-2]), json.loads(done[-1])
    return {
        "per_s": len(answers) / took["wall_s"],
        "cpu_ms": took["cpu_s"] * 1e3 / len(answers),
        "reward": sum(rewards) / len(rewards),
    }
