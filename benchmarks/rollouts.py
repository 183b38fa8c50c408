"""Whole rollouts against a scripted upstream, beside a one-process raw asyncio loop without servers or HTTP library.

Ours is `paddock eval`: collector, agent, model server and pivot server in one process, every rollout journalled and
flushed. Both talk HTTP to one upstream in a process of its own, over rows of 30 kB. Rates are over the collection,
without start-up; the 2,000-row case also takes both as whole commands, start-up included.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import orjson

from benchmarks.bodies import row
from benchmarks.processes import running
from paddock.ports import free_port

ROWS = 2000
ROW_CHARS = 30_000
DELAYS_S = (0.0, 0.05)
CONCURRENCY = (64, 256)
ROUNDS = 3
COMPARATOR = "semantic"
ANSWER = ("execute_bash", '{"command": "pytest -q tests/test_1.py"}')
"""What the upstream always says: a call, so that the comparator has something to compare."""
CONFIGS = ("resources_servers/pivot/configs/pivot.yaml", "models_servers/openai/configs/openai.yaml")


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = folder / "rows.jsonl"
        with rows.open("wb") as file:
            for seed in range(ROWS):
                file.write(orjson.dumps(row(ROW_CHARS, seed)) + b"\n")
        return {
            "rows": ROWS,
            "row_chars": ROW_CHARS,
            "comparator": COMPARATOR,
            "cases": [_case(folder, rows, delay_s, concurrency) for delay_s in DELAYS_S for concurrency in CONCURRENCY],
        }


def _case(folder: Path, rows: Path, delay_s: float, concurrency: int) -> dict[str, Any]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with running(
        ["paddock.testing.upstream", "--port", str(port), "--delay-s", str(delay_s), "--call", *ANSWER],
        f"{url}/v1/models",
    ):
        pairs = [
            (
                _ours(folder / f"run-{delay_s}-{concurrency}-{index}", rows, url, concurrency),
                _floor(folder, rows, url, concurrency),
            )
            for index in range(ROUNDS)
        ]
    return {
        "delay_ms": delay_s * 1e3,
        "concurrency": concurrency,
        "rollouts_per_s": median(ours["rollouts_per_s"] for ours, _ in pairs),
        "floor_rollouts_per_s": median(floor["rollouts_per_s"] for _, floor in pairs),
        "ratio": median(ours["rollouts_per_s"] / floor["rollouts_per_s"] for ours, floor in pairs),
        "command_s": median(ours["command_s"] for ours, _ in pairs),
        "floor_command_s": median(floor["command_s"] for _, floor in pairs),
        "floor_cpu_ms": median(floor["cpu_ms"] for _, floor in pairs),
    }


def _ours(out: Path, rows: Path, url: str, concurrency: int) -> dict[str, float]:
    seconds = _command(
        "paddock",
        "eval",
        *CONFIGS,
        f"policy_base_url={url}/v1",
        "policy_api_key=none",
        "policy_model_name=scripted",
        "policy_model.models_servers.openai.upstream_api=responses",
        f"pivot.resources_servers.pivot.comparator={COMPARATOR}",
        "--rows",
        str(rows),
        "--concurrency",
        str(concurrency),
        "--out",
        str(out),
    ).seconds
    (summary,) = json.loads((out / "summary.json").read_text())
    done = summary["outcomes"].get("completed", 0)
    if done != ROWS:
        raise RuntimeError(f"{out}: {done} of {ROWS} rollouts ended in a verdict")
    return {"rollouts_per_s": summary["rollouts_per_s"], "command_s": seconds}


def _floor(folder: Path, rows: Path, url: str, concurrency: int) -> dict[str, float]:
    out = folder / "floor.jsonl"
    out.unlink(missing_ok=True)
    arguments = {"rows": rows, "url": url, "out": out, "comparator": COMPARATOR, "concurrency": concurrency}
    flat = [str(part) for key, value in arguments.items() for part in (f"--{key}", value)]
    ended = _command("benchmarks.floor_loop", *flat)
    figures: dict[str, float] = json.loads(ended.output)
    return {**figures, "command_s": ended.seconds}


class _CommandCost(NamedTuple):
    seconds: float
    output: str


def _command(*command: str) -> _CommandCost:
    started = time.perf_counter()
    ended = subprocess.run([sys.executable, "-m", *command], check=True, stdout=subprocess.PIPE, text=True)
    return _CommandCost(time.perf_counter() - started, ended.stdout)
