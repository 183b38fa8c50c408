"""What a grading costs: a patch that passes and one that fails, graded whole, beside one plain run of the row's tests.

Floor   the patch applied, the row's test files written and its test command run, once, in one fresh sandbox of the
        same image and limits: create, apply, write, run, destroy. Nothing is read of its output, nothing is doubted.
Ours    `Grader.grade` where the instance is known: its reference, and what its false tests do with the fix. The patch
        that passes is not the reference fix, which is not audited.
Rounds  ours and the floor by turns; figures are medians over rounds, ratios medians of the rounds' ratios. CPU is that
        of this process and, where there are cgroups, of all that ran in its sandboxes; keepers' is not in it.
Needs   the images of the SWE demo's rows (`paddock images build`); rows without one are left out.
Target  at most 2.2 times the floor's time.
"""

import asyncio
import os
import time
import uuid
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any, NamedTuple

import orjson

from benchmarks.faults.grading import ROWS, patch_of
from paddock.http import read_row
from paddock.resources_servers.swe.grading import Grader, GradingOptions, measure_of
from paddock.resources_servers.swe.images import resolve_image
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows import read
from paddock.sandbox import ExecRequest, SandboxSettings, SandboxSpec
from paddock.sandbox.cgroups import Cgroups
from paddock.sandbox.cgroups.kernel import field
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.runtime_choice import open_local_provider

PATCHES = {"equivalent": "resolved", "wrong": "tests_fail"}
"""With what each comes to."""
ROUNDS = 5
OPTIONS = GradingOptions()


class Cost(NamedTuple):
    seconds: float
    cpu_s: float


def run() -> dict[str, Any]:
    return asyncio.run(_run())


async def _run() -> dict[str, Any]:
    settings = SandboxSettings()
    instances = [read(read_row(orjson.loads(line))) for line in ROWS.read_bytes().splitlines()]
    provider = await open_local_provider(settings)
    try:
        grader = Grader(provider, OPTIONS, resolve_image, measure_of(settings.home))
        available = [one for one in instances if provider.store.has(resolve_image(one))]
        pairs = {
            (one.instance_id, name): await _pairs(grader, provider, one, name) for one in available for name in PATCHES
        }
        await grader.close()
    finally:
        await provider.close()
    of_patch = {
        name: [pair for (_, patch), costs in pairs.items() if patch == name for pair in costs] for name in PATCHES
    }
    cases = [{"row": row, "patch": name, **_summary(costs)} for (row, name), costs in pairs.items()]
    return {**{name: _summary(costs) for name, costs in of_patch.items()}, "cases": cases}


async def _pairs(grader: Grader, provider: LocalProvider, instance: SweInstance, name: str) -> list[tuple[Cost, Cost]]:
    patch = patch_of(instance, name)

    async def ours() -> None:
        grade = await grader.grade(instance, patch)
        if grade.reason != PATCHES[name]:
            raise RuntimeError(f"{instance.instance_id}, {name}: {grade.reason}: {grade.detail}")

    async def floor() -> None:
        await _plain(provider, instance, patch, passes=PATCHES[name] == "resolved")

    await ours()
    await floor()
    return [(await _cost(ours, provider.cgroups), await _cost(floor, provider.cgroups)) for _ in range(ROUNDS)]


async def _plain(provider: LocalProvider, instance: SweInstance, patch: bytes, *, passes: bool) -> None:
    spec = SandboxSpec(image=resolve_image(instance), workdir=instance.workdir, env=instance.env, limits=OPTIONS.limits)
    sandbox = (await provider.create(spec, request_id=uuid.uuid4().hex)).sandbox_id

    async def ends(*argv: str, stdin: bytes = b"") -> bool:
        request = ExecRequest(argv=list(argv), stdin=stdin)
        return (await provider.exec(sandbox, request, request_id=uuid.uuid4().hex)).ok

    try:
        if not await ends("git", "apply", "-", stdin=patch):
            raise RuntimeError(f"{instance.instance_id}: the patch does not apply")
        for path, data in instance.test_files.items():
            await provider.write(sandbox, f"{instance.workdir}/{path}", data)
        if await ends("bash", "-c", instance.test_command or "") != passes:
            raise RuntimeError(f"{instance.instance_id}: the plain run ends otherwise than the grading")
    finally:
        await provider.destroy(sandbox)


async def _cost(act: Callable[[], Awaitable[None]], cgroups: Cgroups | None) -> Cost:
    started, cpu = time.perf_counter(), _cpu_s(cgroups)
    await act()
    return Cost(time.perf_counter() - started, _cpu_s(cgroups) - cpu)


def _cpu_s(cgroups: Cgroups | None) -> float:
    used = time.process_time()
    for root in cgroups.roots if cgroups else ():
        for group in root.glob(f"{os.getpid()}-*"):  # of our provider: with what has ended in it
            if (group / "cpuacct.usage").exists():
                used += int((group / "cpuacct.usage").read_text()) / 1e9
            elif (group / "memory.stat").exists() and (group / "cpu.stat").exists():
                used += field((group / "cpu.stat").read_bytes(), b"usage_usec") / 1e6
    return used


def _summary(pairs: list[tuple[Cost, Cost]]) -> dict[str, float]:
    return {
        "s": median(ours.seconds for ours, _ in pairs),
        "floor_s": median(floor.seconds for _, floor in pairs),
        "ratio": median(ours.seconds / floor.seconds for ours, floor in pairs),
        "cpu_s": median(ours.cpu_s for ours, _ in pairs),
        "floor_cpu_s": median(floor.cpu_s for _, floor in pairs),
        "cpu_ratio": median(ours.cpu_s / floor.cpu_s for ours, floor in pairs),
    }
