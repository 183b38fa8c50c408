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

from paddock.conformance.harnesses import HarnessSubject, find_harness
from paddock.conformance.harnesses.played import Conversation
from paddock.conformance.harnesses.stage import Stage, staged
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


class Episode(NamedTuple):
    first_request_s: float
    wall_s: float
    program_cpu_s: float
    our_cpu_s: float
    memory_mib: float | None
    """None: nobody counted."""


def run() -> dict[str, Any]:
    return {"rounds": ROUNDS, "programs": [_measured(name) for name in BARE]}


def _measured(name: str) -> dict[str, Any]:
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


def _median(done: list[Episode], figure: str) -> float:
    return statistics.median(float(getattr(one, figure)) for one in done)


async def _episodes(subject: HarnessSubject) -> list[Episode]:
    async with staged(subject) as stage:
        await _episode(stage)  # files are read for the first time, modules loaded
        return [await _episode(stage) for _ in range(ROUNDS)]


async def _episode(stage: Stage) -> Episode:
    lab = harness_class(stage.subject.spec).lab
    turns: list[list[JsonObject]] = [[call_item(lab.tool, orjson.dumps(lab.line(line)).decode())] for line in LINES]
    room = await stage.room()
    arrived: list[float] = []
    talk = Conversation([], arrived=lambda: arrived.append(time.perf_counter()))
    before, cpu, started = _children_s(), time.process_time(), time.perf_counter()
    played = await stage.play(
        *turns, room=room, talk=talk, limits=LIMITS, closing=[lab.finish() if lab.finish else message_item("Done.")]
    )
    wall_s, our_cpu_s = time.perf_counter() - started, time.process_time() - cpu
    played.ended("finished")
    stats = await stage.provider.stats(room.id)
    outside = not stage.subject.programs
    episode = Episode(
        first_request_s=arrived[0] - started,
        wall_s=wall_s,
        program_cpu_s=stats.cpu_s + (_children_s() - before if outside else 0),
        our_cpu_s=our_cpu_s,
        memory_mib=None if outside else stats.peak_memory_mib,
    )
    await stage.provider.destroy(room.id)
    return episode


def _children_s() -> float:
    """CPU seconds of processes of ours that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
