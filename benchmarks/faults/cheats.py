"""The pay of cheats: each patch of the zoo's corpus graded a number of times, and what it earns on average.

Pay     as the `swe` server gives it: 1 for `resolved`, `forgery_reward` for `tests_forged`, else 0. A grading that
        fails, by the machine or the verifier, is no grading: it is counted, and tried again, up to as many times
        once more.
Records one line of JSON for each grading, appended to `--records`; a campaign with the same file goes on where it was.
Figures `wrong`, which must be 0: cheats that are paid without knowing the tests by heart; one that acts by chance where
        its mean pay is above 0 by more than two standard errors. `cheats`: the mean pay, its standard error and the
        verdicts of each; `signs`: the same of all cheats of one sign together.
"""

import argparse
import asyncio
import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import orjson
from tests.zoo.corpus import Cheat, CheatGrader, cheat_grader, cheats, own_projects

from paddock.errors import PaddockError
from paddock.sandbox import SandboxSettings
from paddock.sandbox.runtime_choice import open_local_provider

RECORDS = Path("runs/bench/faults-cheats.jsonl")


def run(words: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks faults cheats")
    parser.add_argument("--times", type=int, default=1, help="gradings of each cheat (default: 1)")
    parser.add_argument("--only", default="", help="a pattern that the names of cheats match (default: all)")
    parser.add_argument("--chance", action="store_true", help="only cheats that act by chance")
    parser.add_argument("--runtime", default="auto", help="of the sandboxes (default: auto)")
    parser.add_argument("--at-once", type=int, default=2, help="gradings at the same time (default: 2)")
    parser.add_argument("--records", type=Path, default=RECORDS, help=f"(default: {RECORDS})")
    args = parser.parse_args(words)
    chosen = [one for one in cheats().values() if re.search(args.only, one.name) and (one.chance or not args.chance)]
    if not chosen:
        raise SystemExit(f"no cheat matches {args.only!r}")
    args.records.parent.mkdir(parents=True, exist_ok=True)
    asyncio.run(_campaign(SandboxSettings(runtime=args.runtime), chosen, args.times, args.at_once, args.records))
    return {"runtime": args.runtime, "times": args.times, **_figures(_read(args.records), chosen)}


async def _campaign(settings: SandboxSettings, chosen: list[Cheat], times: int, at_once: int, records: Path) -> None:
    provider = await open_local_provider(settings)
    turns = asyncio.Semaphore(at_once)
    records_before = _read(records)
    graded = Counter(one["cheat"] for one in records_before if one["pay"] is not None)
    failed = Counter(one["cheat"] for one in records_before if one["pay"] is None)
    with tempfile.TemporaryDirectory() as name:
        cheat_graders: dict[str, CheatGrader] = {}
        try:
            for kind in dict.fromkeys(cheat.project.name for cheat in chosen):
                cheat_graders[kind] = await cheat_grader(provider, own_projects()[kind], Path(name))

            async def grade(cheat: Cheat) -> None:
                async with turns:
                    if graded[cheat.name] >= times or failed[cheat.name] >= times:
                        return
                    record = await _grade(cheat_graders[cheat.project.name], cheat)
                    (failed if record["pay"] is None else graded)[cheat.name] += 1
                    with records.open("ab") as file:
                        file.write(orjson.dumps(record) + b"\n")
                    print(orjson.dumps({**record, "detail": record["detail"][:100]}).decode(), flush=True)

            # A round of all after a round of all, so that what a stopped campaign leaves is even.
            for _ in range(2 * times):
                await asyncio.gather(*(grade(cheat) for cheat in chosen))
        finally:
            for one in cheat_graders.values():
                await one.grader.close()
            await provider.close()


async def _grade(its: CheatGrader, cheat: Cheat) -> dict[str, Any]:
    began = time.monotonic()
    figures: dict[str, Any] = {"cheat": cheat.name, "sign": cheat.sign.name, "pay": None}
    try:
        pay, grade = await its.grade(cheat)
        figures |= {"verdict": grade.reason, "detail": grade.detail, "pay": pay}
    except PaddockError as error:
        figures |= {"verdict": f"{error.outcome}: {error.kind}", "detail": error.message}
    return {**figures, "took_s": round(time.monotonic() - began, 1)}


def _read(records: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in records.read_bytes().splitlines()] if records.exists() else []


def _figures(records: list[dict[str, Any]], chosen: list[Cheat]) -> dict[str, Any]:
    by_cheat = {cheat.name: [one for one in records if one["cheat"] == cheat.name] for cheat in chosen}
    table = [{"cheat": cheat.name, **_summary(by_cheat[cheat.name])} for cheat in chosen]
    signs = dict.fromkeys(cheat.sign.name for cheat in chosen)
    of_sign = {sign: [one for name in by_cheat for one in by_cheat[name] if one["sign"] == sign] for sign in signs}
    paid = [cheat for cheat in chosen if not cheat.tells and _is_paid(cheat, by_cheat[cheat.name])]
    return {
        "n": len(chosen),
        "gradings": sum(one["n"] for one in table),
        "failed": sum(one["failed"] for one in table),
        "wrong": len(paid),
        "cheats": sorted(table, key=lambda one: -(one["pay"] or 0.0)),
        "signs": [{"sign": sign, **_summary(of_sign[sign])} for sign in signs],
    }


def _is_paid(cheat: Cheat, records: list[dict[str, Any]]) -> bool:
    pays = [one["pay"] for one in records if one["pay"] is not None]
    if not cheat.chance:
        return any(pay > 0 for pay in pays)
    return len(pays) > 1 and mean(pays) > 2 * stdev(pays) / len(pays) ** 0.5


def _summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    pays = [one["pay"] for one in records if one["pay"] is not None]
    verdicts = Counter(one["verdict"] for one in records)
    return {
        "pay": mean(pays) if pays else None,
        "error": stdev(pays) / len(pays) ** 0.5 if len(pays) > 1 else None,
        "n": len(pays),
        "failed": len(records) - len(pays),
        "verdicts": " ".join(f"{name}={count}" for name, count in verdicts.most_common()),
    }
