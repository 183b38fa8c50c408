"""Real programs as harnesses: how long each takes to its first request, what it costs, and what we cost beside it.

Episode  four calls of the model: look, edit, test, finish, against a model server in this process that answers at once;
         a sandbox that is there already. Programs that are not installed are named.
Figures  medians. `first_request_s` from the start of the harness to the program's first request. `program_cpu_s` of the
         program and its commands. `memory_mib` of the sandbox, the largest that its watchdog saw in looks a second
         apart: too little for an episode that is shorter. `our_cpu_s` of this process: model server, record, tunnel
         and transcript together; `our_share` of all CPU of the episode.
Floor    `bare_*`: the same programs without us, against a mock server on another machine of this kind, four calls.
"""

import asyncio
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import orjson

from paddock.conformance.harnesses import HarnessTarget, find_harness
from paddock.conformance.harnesses.fixture import HarnessFixture, harness_fixture
from paddock.conformance.harnesses.scripted_model import ScriptedConversation
from paddock.errors import ConfigError
from paddock.harness import RunLimits, harness_class
from paddock.harness.programs.catalogue import program_of
from paddock.harness.programs.store import ProgramStore
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

BARE: dict[str, dict[str, float]] = {
    "codex_cli": {"bare_cpu_s": 0.55, "bare_memory_mib": 137},
    "opencode_cli": {"bare_cpu_s": 7.2, "bare_memory_mib": 570},
    "claude_code": {"bare_cpu_s": 0.7, "bare_memory_mib": 288},
    "mini_swe_agent": {"bare_cpu_s": 5.5, "bare_memory_mib": 215},
    "openhands_sdk": {"bare_cpu_s": 6.8, "bare_memory_mib": 257},
    "openhands_v0": {"bare_cpu_s": 7.3, "bare_memory_mib": 387},
}
"""Resident memory, of which binaries are a part; ours counts what a sandbox's limit counts."""
ROUNDS = 3
LINES = ("cat calc.py", "sed -i 's/a - b/a + b/' calc.py", "python3 test_calc.py")
LIMITS = RunLimits(max_turns=30, time_s=120.0, tool_s=30.0)


class ProgramRun(NamedTuple):
    first_request_s: float
    wall_s: float
    program_cpu_s: float
    our_cpu_s: float
    memory_mib: float | None
    """None: nobody counted."""


def run() -> dict[str, Any]:
    return {"rounds": ROUNDS, "programs": [_measure(name) for name in BARE]}


def _measure(name: str) -> dict[str, Any]:
    try:
        ProgramStore().find(program_of(name))
    except ConfigError as missing:
        return {"program": name, "skipped": missing.message}
    done = asyncio.run(_episodes(find_harness(f"harness:{name}")))
    median: Callable[[str], float] = partial(_median, done)
    program, ours = median("program_cpu_s"), median("our_cpu_s")
    memory = [one.memory_mib for one in done if one.memory_mib is not None]
    return {
        "program": name,
        "first_request_s": median("first_request_s"),
        "wall_s": median("wall_s"),
        "program_cpu_s": program,
        "our_cpu_s": ours,
        "our_share": ours / (program + ours),
        **({"memory_mib": statistics.median(memory)} if memory else {}),
        **BARE[name],
    }


def _median(done: list[ProgramRun], figure: str) -> float:
    return statistics.median(float(getattr(one, figure)) for one in done)


async def _episodes(target: HarnessTarget) -> list[ProgramRun]:
    async with harness_fixture(target) as fixture:
        await _episode(fixture)  # files are read for the first time, modules loaded
        return [await _episode(fixture) for _ in range(ROUNDS)]


async def _episode(fixture: HarnessFixture) -> ProgramRun:
    lab = harness_class(fixture.target.spec).lab
    turns: list[list[JsonObject]] = [[call_item(lab.tool, orjson.dumps(lab.line(line)).decode())] for line in LINES]
    sandbox = await fixture.sandbox()
    arrived: list[float] = []
    conversation = ScriptedConversation([], on_request=lambda: arrived.append(time.perf_counter()))
    before, cpu, started = _children_s(), time.process_time(), time.perf_counter()
    run = await fixture.run(
        *turns,
        sandbox=sandbox,
        conversation=conversation,
        limits=LIMITS,
        closing=[lab.finish() if lab.finish else message_item("Done.")],
    )
    wall_s, our_cpu_s = time.perf_counter() - started, time.process_time() - cpu
    run.expect_exit("finished")
    stats = await fixture.provider.stats(sandbox.id)
    outside = not fixture.target.programs
    episode = ProgramRun(
        first_request_s=arrived[0] - started,
        wall_s=wall_s,
        program_cpu_s=stats.cpu_s + (_children_s() - before if outside else 0),
        our_cpu_s=our_cpu_s,
        memory_mib=None if outside else stats.peak_memory_mib,
    )
    await fixture.provider.destroy(sandbox.id)
    return episode


def _children_s() -> float:
    """CPU seconds of processes of ours that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
