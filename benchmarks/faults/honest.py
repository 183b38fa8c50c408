"""Honest patches under the grader: right fixes in many forms, each tried plainly first; none may be hurt.

Rows    the small projects of `tests/zoo`, and with `--rows FILE` those of a file whose images are here. A patch that
        its row's tests refuse when they are run plainly is a defect of what draws it, and is not graded.
Left    in `runs/bench/honest-SEED`: `cases.jsonl`, a line as each patch is graded, by which a campaign that was stopped
        goes on (remove it to grade again); and the patches that were hurt.
Figures patches by what came of them; `wrong`, those with a verdict that is not `resolved`, and `missing`, those without
        a verdict, must be 0.
"""

import argparse
import asyncio
import hashlib
import tempfile
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from tests.zoo.honest_patches.draw import HonestPatch, draw
from tests.zoo.honest_patches.plain_run import complaint
from tests.zoo.honest_patches.subjects import PatchCase, case_of, own_cases

from paddock.errors import PaddockError
from paddock.http import read_row
from paddock.resources_servers.swe.grading import Grader, GradingOptions, measure_of
from paddock.resources_servers.swe.images import resolve_image
from paddock.resources_servers.swe.rows import read
from paddock.sandbox import SandboxSettings
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.runtime_choice import open_local_provider

OUT = Path("runs/bench")
TIMEOUT_S = 300.0
"""The limit of one run of tests; the machine may be busy."""
OPTIONS = {"tests_timeout_s": TIMEOUT_S, "official": False}
Figures = dict[str, Any]


def run(words: list[str]) -> Figures:
    parser = argparse.ArgumentParser(prog="python -m benchmarks faults honest")
    parser.add_argument("--count", type=int, default=500, help="patches (default: 500)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (default: 0)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    parser.add_argument("--project", action="append", default=[], help="of tests/zoo/trees (default: all)")
    parser.add_argument("--rows", type=Path, action="append", default=[], help="a file of rows whose images are here")
    parser.add_argument("--concurrency", type=int, default=2, help="gradings at once (default: 2)")
    parser.add_argument("--runtime", default="auto", help="of the sandboxes (default: auto)")
    args = parser.parse_args(words)
    out = OUT / f"honest-{args.seed}"
    out.mkdir(parents=True, exist_ok=True)
    found = asyncio.run(_campaign(args, out))
    graded = [one for one in found if one["verdict"] != "defect"]
    hurt = [one for one in graded if one["verdict"] != "resolved"]
    for one in hurt:
        print(f"hurt: {orjson.dumps(one).decode()}")
    return {
        "seed": args.seed,
        "n": len(graded),
        "resolved": len(graded) - len(hurt),
        "wrong": sum(not one["failed"] for one in hurt),
        "missing": sum(one["failed"] for one in hurt),
        "defects": len(found) - len(graded),
    }


async def _campaign(args: argparse.Namespace, out: Path) -> list[Figures]:
    provider = await open_local_provider(SandboxSettings(runtime=args.runtime))
    home = provider.settings.home
    grader = Grader(provider, GradingOptions.model_validate(OPTIONS), resolve_image, measure_of(home))
    journal = _Journal(out / "cases.jsonl")
    turns = asyncio.Semaphore(args.concurrency)

    async def try_patch(case: PatchCase, patch: HonestPatch) -> Figures:
        async with turns:
            return await _try_patch(provider, grader, case, patch, out)

    try:
        with tempfile.TemporaryDirectory() as folder:
            cases = await _cases(provider, args, Path(folder))
            subjects = [case.subject for case in cases.values()]
            waiting = []
            for number in range(args.first, args.first + args.count):
                patch = await asyncio.to_thread(draw, subjects, args.seed, number)
                case = cases[patch.subject]
                waiting.append(asyncio.create_task(journal.keep(patch, partial(try_patch, case, patch))))
            return await asyncio.gather(*waiting)
    finally:
        await grader.close()
        await provider.close()


async def _cases(provider: LocalProvider, args: argparse.Namespace, folder: Path) -> dict[str, PatchCase]:
    """The cases by the names of their subjects."""
    found = await own_cases(provider.store, folder, args.project)
    for file in args.rows:
        for line in file.read_bytes().splitlines():
            instance = read(read_row({"responses_create_params": {"input": []}, **orjson.loads(line)}))
            if provider.store.has(resolve_image(instance)):
                found.append(await case_of(provider, instance, folder / instance.instance_id))
    return {case.subject.name: case for case in found}


async def _try_patch(
    provider: LocalProvider, grader: Grader, case: PatchCase, patch: HonestPatch, out: Path
) -> Figures:
    began = time.monotonic()
    failed, dropped = False, []
    verdict, detail = "defect", await complaint(provider, case.instance, patch.patch, timeout_s=TIMEOUT_S)
    if detail is None:
        try:
            grade = await grader.grade(case.instance, patch.patch)
            verdict, detail = grade.reason, grade.detail
            dropped = [f"{one.path}: {one.reason}" for one in grade.dropped]
        except PaddockError as error:
            failed, verdict, detail = True, error.kind, error.message
        except Exception as error:  # noqa: BLE001 - it is one of the figures
            failed, verdict, detail = True, "crash", repr(error)
    if verdict != "resolved":
        (out / f"{patch.number}.diff").write_bytes(patch.patch)
    return {
        "number": patch.number,
        "row": patch.subject,
        "verdict": verdict,
        "failed": failed,
        "changes": patch.changes,
        "form": patch.form,
        "dropped": dropped,
        "detail": detail,
        "took_s": round(time.monotonic() - began, 1),
    }


class _Journal:
    """Figures of patches, kept in a file by number and patch."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_bytes().splitlines() if path.exists() else []
        known = [orjson.loads(line) for line in lines]
        self._figures: dict[str, Figures] = {one["patch"]: one for one in known}

    async def keep(self, patch: HonestPatch, make: Callable[[], Coroutine[Any, Any, Figures]]) -> Figures:
        """What is known of a patch, or is made now."""
        key = f"{patch.number}-{hashlib.sha256(patch.patch).hexdigest()[:16]}"
        if key not in self._figures:
            self._figures[key] = {"patch": key, **await make()}
            line = orjson.dumps(self._figures[key])
            print(line.decode(), flush=True)
            with self._path.open("ab") as file:
                file.write(line + b"\n")
        return self._figures[key]
