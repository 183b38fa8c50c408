"""Grading under faults: patches of the SWE demo's rows whose verdicts are known, one fault in each grading.

Case    a row, a patch (`PATCHES`), a kind of fault, the number of the run that it strikes in, and the time from
        that run's begin or end to the strike, all drawn by the seed. The fault's grading may fail, and the patch is
        graded again, by the same grader, when the machine is well: then it must have its verdict.
Needs   what `machine` says; the rows' images (`paddock images build`).
Prints  each case as it ends, a line of JSON each.
Figures gradings by what came of them; `wrong`, which must be 0; `cases`, one by one.
"""

import argparse
import asyncio
import random
import time
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from benchmarks.faults import machine as machines
from benchmarks.faults.machine import SmallMachine
from benchmarks.faults.machine_faults import KINDS, MachineFault, StrikeTime
from benchmarks.faults.stages import Stages
from paddock.errors import PaddockError
from paddock.http import read_row
from paddock.resources_servers.swe.grading import Grader, GradingOptions, measure_of
from paddock.resources_servers.swe.images import resolve_image
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows import read
from paddock.sandbox import SandboxSettings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.runtime_choice import open_local_provider
from paddock.sandbox.watchdog import WatchdogSettings

ROWS = Path("resources_servers/swe/data/example.jsonl")
OPTIONS = {"tests_timeout_s": 20.0, "limits": {"memory_mib": 1024, "pids": 512, "disk_mib": 256}}
MAX_REPEATS = 3
"""Gradings, at most, until the machine that is well again gives a verdict: others may keep it so busy that time limits
pass."""
FAILURES = ("infra", "verifier")
WATCHDOG = WatchdogSettings(disk_period_s=0.3)
"""Looks at a sandbox's disk often enough for a run of a second."""
AT_END_SHARE = 0.4
"""Share of faults that count their time from a run's end."""
DELAYS_S = ((0.0, 1.0, 3.0), (0.0, 0.0, 0.5))
"""A delay is at most one of the first from a run's begin, of the second from its end; a run takes a second or two."""
NOTES = b"diff --git a/NOTES b/NOTES\nnew file mode 100644\n--- /dev/null\n+++ b/NOTES\n@@ -0,0 +1 @@\n+nothing\n"
KILLING_CODE = b"__import__('os').kill(__import__('os').getpid(), 9)"
FORGING_CODE = """
from _pytest.reports import TestReport
made = TestReport.from_item_and_call.__func__
def bent(cls, item, call):
    report = made(cls, item, call)
    if report.nodeid.split("::")[0] in {files}:
        report.outcome, report.longrepr = "passed", None
    return report
TestReport.from_item_and_call = classmethod(bent)
"""


class GradedPatch(NamedTuple):
    reward: float
    runs: int
    """Runs of tests in a grading without a fault: the fault strikes in one of them, or before."""
    share: int
    """Its share of the cases, beside the others' shares."""


PATCHES = {
    "gold": GradedPatch(1.0, 1, 4),
    "equivalent": GradedPatch(1.0, 4, 4),
    "noop": GradedPatch(0.0, 4, 4),
    "wrong": GradedPatch(0.0, 4, 4),
    "killing": GradedPatch(0.0, 9, 2),
    "forger": GradedPatch(0.0, 6, 2),
}
"""The fix; the same and a file of notes; the file alone; a fix that raises; one that kills the tests; the fix, with all
tests of the files that it is for reported as passed."""


def run(words: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks faults grading")
    parser.add_argument("--cases", type=int, default=200, help="gradings with a fault (default: 200)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    parser.add_argument("--runtime", default="auto", help="of the sandboxes (default: auto)")
    args = parser.parse_args(words)
    machines.enter(["faults", "grading", *words])
    settings = SandboxSettings(runtime=args.runtime, watchdog=WATCHDOG)
    instances = [read(read_row(orjson.loads(line))) for line in ROWS.read_bytes().splitlines()]
    random.seed(args.seed)
    with machines.small_machine(settings.home) as machine:
        cases = asyncio.run(_campaign(settings, machine, instances, args.cases, random.Random(args.seed)))
    struck = [one for one in cases if one["struck"]]
    return {
        "seed": args.seed,
        "runtime": args.runtime,
        "n": len(cases),
        "struck": len(struck),
        "failed": sum(not isinstance(one["under_fault"], float) for one in struck),
        "wrong": sum(one["wrong"] for one in cases),
        "cases": cases,
    }


async def _campaign(
    settings: SandboxSettings, machine: SmallMachine, instances: list[SweInstance], n: int, chance: random.Random
) -> list[dict[str, Any]]:
    provider = await open_local_provider(settings)
    cases = []
    try:
        available = [one for one in instances if provider.store.has(resolve_image(one))]
        if not available:
            raise SystemExit(f"no image of {ROWS} is here: paddock images build --rows {ROWS}")
        stages = Stages(provider)
        for _ in range(n):
            grader = Grader(stages, GradingOptions.model_validate(OPTIONS), resolve_image, measure_of(settings.home))
            cases.append(await _case(grader, stages, machine, provider.store, chance.choice(available), chance))
            print(orjson.dumps(cases[-1]).decode(), flush=True)
    finally:
        await provider.close()
    return cases


async def _case(
    grader: Grader,
    stages: Stages,
    machine: SmallMachine,
    store: ImageStore,
    instance: SweInstance,
    chance: random.Random,
) -> dict[str, Any]:
    name = chance.choices(list(PATCHES), [one.share for one in PATCHES.values()])[0]
    kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
    at_end = chance.random() < AT_END_SHARE
    delay_s = chance.uniform(0.0, chance.choice(DELAYS_S[at_end]))
    strike_time = StrikeTime(chance.randrange(PATCHES[name].runs + 1), at_end, delay_s)
    layer = chance.choice(store.get(resolve_image(instance)).record.layers)
    patch, began = patch_of(instance, name), time.monotonic()
    stages.begin(instance, patch)
    fault = MachineFault(kind, strike_time, machine, layer, stages)
    fault.start()
    try:
        under_fault, reason = await _grade(grader, instance, patch)
    finally:
        await asyncio.to_thread(fault.close)
    runs, right, failures_after = stages.runs, PATCHES[name].reward, []
    for _ in range(MAX_REPEATS):
        stages.begin(instance, patch)
        after, reason_after = await _grade(grader, instance, patch)
        if after not in FAILURES:
            break
        failures_after.append(reason_after)
    return {
        "row": instance.instance_id,
        "patch": name,
        "fault": kind,
        "run": strike_time.run,
        "at_end": at_end,
        "delay_s": round(delay_s, 2),
        "struck": fault.struck,
        "under_fault": under_fault,
        "reason": reason,
        "runs": runs,
        "after": after,
        "reason_after": reason_after,
        "failures_after": failures_after,
        "runs_after": stages.runs,
        "took_s": round(time.monotonic() - began, 1),
        "wrong": under_fault not in (right, *FAILURES) or after != right,
    }


async def _grade(grader: Grader, instance: SweInstance, patch: bytes) -> tuple[float | str, str]:
    """The reward, or the outcome of a failure; and its reason or kind."""
    try:
        reason = (await grader.grade(instance, patch)).reason
    except PaddockError as error:
        return error.outcome, error.kind
    except Exception as error:  # noqa: BLE001 - it is one of the figures
        return "crash", repr(error)
    return float(reason == "resolved"), reason


def patch_of(instance: SweInstance, name: str) -> bytes:
    """One of `PATCHES`."""
    gold = instance.gold_patch if instance.gold_patch.endswith(b"\n") else instance.gold_patch + b"\n"
    lines = gold.split(b"\n")
    first = next(nth for nth, line in enumerate(lines) if line.startswith(b"+") and not line.startswith(b"+++"))
    code = lines[first][1:].lstrip()
    start = lines[first].removesuffix(code)
    if name == "wrong":
        lines[first] = start + b"raise RuntimeError"
    elif name == "killing":
        lines[first] = start + KILLING_CODE
    elif name == "forger":
        files = {test.split("::")[0] for test in instance.fail_to_pass}
        lines[first] = start + f"exec({FORGING_CODE.replace('{files}', repr(files))!r}, {{}}); ".encode() + code
    else:
        return {"gold": gold, "equivalent": gold + NOTES, "noop": NOTES}[name]
    return b"\n".join(lines)
