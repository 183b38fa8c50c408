"""Pivot rollouts of `paddock eval` in one process and over two workers, in turns, on the same rows.

With `--oracle`, so that no process but theirs is at work; with a scripted upstream in a process of its own, for what a
rollout costs by HTTP. CPU is of the command and all its processes, less that of a run of a few rows: start-up is no
rollout's. Two workers on two idle cores are at best 2 / (CPU of two workers by CPU of one) times as fast.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import orjson
import psutil

from benchmarks.bodies import row
from benchmarks.processes import running
from benchmarks.rollouts import ANSWER, CONFIGS, ROW_CHARS
from paddock.ports import free_port

ROWS = 2000
FEW = 20
ROUNDS = 3
WORKERS = (1, 2)
COMPARATORS = ("compat", "semantic")


class RunCost(NamedTuple):
    """What one command took."""

    rollouts_per_s: float
    cpu_s: float


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        many, few = write_rows(folder / "many.jsonl", ROWS), write_rows(folder / "few.jsonl", FEW)
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        upstream = ["paddock.testing.upstream", "--port", str(port), "--call", *ANSWER]
        with running(upstream, f"{url}/v1/models"):
            cases = [
                _case(folder, many, few, comparator, [f"policy_base_url={url}/v1", *more])
                for comparator in COMPARATORS
                for more in ([], ["--oracle"])
            ]
    return {"rows": ROWS, "row_chars": ROW_CHARS, "cpus": psutil.cpu_count(), "cases": cases}


def _case(folder: Path, many: Path, few: Path, comparator: str, words: Sequence[str]) -> dict[str, Any]:
    rounds = []
    for _ in range(ROUNDS):
        costs = {}
        for n_workers in WORKERS:
            some = _command(folder, few, comparator, [*words, "--workers", str(n_workers)])
            whole = _command(folder, many, comparator, [*words, "--workers", str(n_workers)])
            costs[n_workers] = whole._replace(cpu_s=(whole.cpu_s - some.cpu_s) / (ROWS - FEW))
        rounds.append((costs, psutil.getloadavg()[0]))
    figures: dict[str, Any] = {"comparator": comparator, "oracle": "--oracle" in words}
    for n_workers in WORKERS:
        figures[f"cpu_ms_{n_workers}"] = median(costs[n_workers].cpu_s for costs, _ in rounds) * 1e3
        figures[f"per_s_{n_workers}"] = median(costs[n_workers].rollouts_per_s for costs, _ in rounds)
    one, two = WORKERS
    figures["cpu_ratio"] = median(costs[two].cpu_s / costs[one].cpu_s for costs, _ in rounds)
    figures["rate_ratio"] = median(costs[two].rollouts_per_s / costs[one].rollouts_per_s for costs, _ in rounds)
    figures["load"] = median(load for _, load in rounds)
    return figures


def write_rows(path: Path, count: int) -> Path:
    path.write_bytes(b"".join(orjson.dumps(row(ROW_CHARS, seed)) + b"\n" for seed in range(count)))
    return path


def _command(folder: Path, rows: Path, comparator: str, words: Sequence[str]) -> RunCost:
    out = Path(tempfile.mkdtemp(dir=folder)) / "run"
    command = [
        *(sys.executable, "-m", "paddock", "eval", *CONFIGS),
        *("policy_api_key=none", "policy_model_name=scripted"),
        "policy_model.models_servers.openai.upstream_api=responses",
        f"pivot.resources_servers.pivot.comparator={comparator}",
        *("--rows", str(rows), "--out", str(out), "--quiet", *words),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    (summary,) = json.loads((out / "summary.json").read_text())
    return RunCost(summary["rollouts_per_s"], usage.ru_utime + usage.ru_stime)
