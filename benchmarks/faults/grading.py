"""Grading under faults: patches of the SWE demo's rows whose verdicts are known, one fault in each grading.

Case    a row, a patch (the known fix; the same and a file of notes; the file alone; a fix that raises), a kind of fault
        and the number of the run that it strikes, all drawn by the seed. The fault's grading may fail, and the patch is
        graded again, by the same grader, when the machine is well: then it must have its verdict.
Needs   root, for a small disk of its own (tmpfs) under the sandboxes; the rows' images (`paddock images build`).
Figures gradings by what came of them; `wrong`, which must be 0; `cases`, one by one.
"""

import argparse
import asyncio
import random
from pathlib import Path
from typing import Any

import orjson

from benchmarks.faults.disks import small_disk
from benchmarks.faults.planting import KINDS, Fault
from paddock.errors import PaddockError
from paddock.http import read_row
from paddock.resources_servers.swe.grading import Grader, GradingOptions, measure_of
from paddock.resources_servers.swe.images import resolve_image
from paddock.resources_servers.swe.instance import Instance
from paddock.resources_servers.swe.rows import read
from paddock.sandbox import SandboxSettings, open_provider
from paddock.sandbox.owner import state_folder

ROWS = Path("resources_servers/swe/data/example.jsonl")
OPTIONS = {"tests_timeout_s": 10.0, "limits": {"memory_mib": 1024, "pids": 512, "disk_mib": 256}}
DISK_MIB = 512
RUNS = {"gold": 1, "equivalent": 4, "noop": 1, "wrong": 3}
"""By patch, the runs of a grading without a fault: one of them is struck."""
NOTES = b"diff --git a/NOTES b/NOTES\nnew file mode 100644\n--- /dev/null\n+++ b/NOTES\n@@ -0,0 +1 @@\n+nothing\n"
REWARDS = {"gold": 1.0, "equivalent": 1.0, "noop": 0.0, "wrong": 0.0}


def run(words: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks faults grading")
    parser.add_argument("--cases", type=int, default=200, help="gradings with a fault (default: 200)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    args = parser.parse_args(words)
    settings = SandboxSettings()
    instances = [read(read_row(orjson.loads(line))) for line in ROWS.read_bytes().splitlines()]
    with small_disk(state_folder(settings.home), DISK_MIB):
        cases = asyncio.run(_campaign(settings, instances, args.cases, random.Random(args.seed)))
    wrong = [one for one in cases if one["wrong"]]
    struck = [one for one in cases if one["struck"]]
    failed = sum(one["meanwhile"] in ("infra", "verifier") for one in struck)
    return {
        "seed": args.seed,
        "n": len(cases),
        "struck": len(struck),
        "failed": failed,
        "wrong": len(wrong),
        "cases": cases,
    }


async def _campaign(
    settings: SandboxSettings, instances: list[Instance], n: int, chance: random.Random
) -> list[dict[str, Any]]:
    provider = await open_provider(settings)
    found = []
    try:
        there = [one for one in instances if provider.store.has(resolve_image(one))]
        if not there:
            raise SystemExit(f"no image of {ROWS} is here: paddock images build --rows {ROWS}")
        for _ in range(n):
            grader = Grader(provider, GradingOptions.model_validate(OPTIONS), resolve_image, measure_of(settings.home))
            instance, patch = chance.choice(there), chance.choice(list(REWARDS))
            fault = Fault(chance.choice(KINDS), chance.randrange(1, RUNS[patch] + 1), state_folder(settings.home))
            fault.start()
            try:
                meanwhile = await _graded(grader, instance, patch)
            finally:
                await asyncio.to_thread(fault.close)
            after = await _graded(grader, instance, patch)
            case = {"row": instance.instance_id, "patch": patch, "fault": fault.kind, "run": fault.number}
            wrong = meanwhile not in (REWARDS[patch], "infra", "verifier") or after != REWARDS[patch]
            found.append({**case, "struck": fault.struck, "meanwhile": meanwhile, "after": after, "wrong": wrong})
    finally:
        await provider.close()
    return found


async def _graded(grader: Grader, instance: Instance, patch: str) -> float | str:
    """The reward, or the outcome of a failure."""
    try:
        return float((await grader.grade(instance, _patch(instance, patch))).reason == "resolved")
    except PaddockError as error:
        return error.outcome


def _patch(instance: Instance, name: str) -> bytes:
    gold = instance.gold_patch if instance.gold_patch.endswith(b"\n") else instance.gold_patch + b"\n"
    if name == "wrong":
        lines = gold.split(b"\n")
        first = next(nth for nth, line in enumerate(lines) if line.startswith(b"+") and not line.startswith(b"+++"))
        lines[first] = b"+raise RuntimeError("
        return b"\n".join(lines)
    return {"gold": gold, "equivalent": gold + NOTES, "noop": NOTES}[name]
