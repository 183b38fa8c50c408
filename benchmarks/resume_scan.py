"""The scan of a run folder with 10,000 finished rollouts of 30 kB, as `--resume` makes it.

Floor: reading the same bytes of `rollouts.jsonl` once, without looking at them.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from benchmarks.bodies import row
from paddock.collect import EvalSettings, ServerLocations, evaluate, make_plan
from paddock.collect.recovery import recover
from paddock.config import load

ROLLOUTS = 10_000
ROWS = 500
ROW_CHARS = 30_000
ROUNDS = 5
CONFIGS = ("resources_servers/pivot/configs/pivot.yaml", "models_servers/openai/configs/openai.yaml")
POLICY = ("policy_base_url=http://127.0.0.1:9/v1", "policy_api_key=none", "policy_model_name=none")


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = folder / "rows.jsonl"
        rows.write_bytes(b"".join(orjson.dumps(row(ROW_CHARS, seed)) + b"\n" for seed in range(ROWS)))
        settings = EvalSettings(rows=[str(rows)], repeats=ROLLOUTS // ROWS)
        plan = make_plan(load(CONFIGS, POLICY), settings, oracle=True)
        out = folder / "run"
        asyncio.run(evaluate(plan, out, servers=ServerLocations(), quiet=True))
        scans, reads = [], []
        for _ in range(ROUNDS):
            scans.append(_scan(out))
            reads.append(_read(out / "rollouts.jsonl"))
        return {
            "rollouts": ROLLOUTS,
            "mib": (out / "rollouts.jsonl").stat().st_size / 2**20,
            "scan_s": median(scans),
            "floor_read_s": median(reads),
            "ratio_s": median(scan / read for scan, read in zip(scans, reads, strict=True)),
        }


def _scan(out: Path) -> float:
    started = time.perf_counter()
    scan = recover(out)
    seconds = time.perf_counter() - started
    if len(scan.verdicts) != ROLLOUTS:
        raise RuntimeError(f"{out}: the scan found {len(scan.verdicts)} of {ROLLOUTS} rollouts")
    return seconds


def _read(path: Path) -> float:
    started = time.perf_counter()
    with path.open("rb") as file:
        while file.read(1 << 20):
            pass
    return time.perf_counter() - started
