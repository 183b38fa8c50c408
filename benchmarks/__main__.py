"""Runs benchmarks, prints their figures, leaves each as `runs/bench/NAME.json`."""

import importlib
import platform
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import psutil

from benchmarks.faults import BAD

MODULES = (
    "server_start",
    "verify",
    "math_answers",
    "code_programs",
    "rollouts",
    "workers",
    "resume_scan",
    "harness",
    "programs",
    "watchdog",
    "sandboxes",
    "nodes",
    "tokens",
    "group_judge",
    "grading",
    "training",
    "trainer_interface",
    "walks",
    "pivot_pairs",
)
"""A module is a benchmark of that name."""
WHERE_NAMED = ("cluster", "capacity", "pivot_executed", "pivot_mined", "answers", "judged_answers", "view")
"""Long ones, which run only where they are named."""
CAMPAIGNS = ("grading", "runs", "payload", "cheats", "honest")
"""Modules of `faults`, which have arguments of their own: none of them runs where no name is given."""
OUT = Path("runs/bench")


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    if sys.argv[1:2] == ["faults"]:
        _campaign(sys.argv[2:])
        return
    names = sys.argv[1:] or list(MODULES)
    unknown = [name for name in names if name not in (*MODULES, *WHERE_NAMED)]
    if unknown:
        known = ", ".join((*MODULES, *WHERE_NAMED))
        sys.exit(f"no benchmark {unknown[0]!r}; there are: {known}, and `faults`")
    for name in names:
        started = time.perf_counter()
        figures: dict[str, Any] = importlib.import_module(f"benchmarks.{name}").run()
        machine = {
            "python": platform.python_version(),
            "cpus": psutil.cpu_count(),
            "load_1min": psutil.getloadavg()[0],
            "seconds": time.perf_counter() - started,
        }
        (OUT / f"{name}.json").write_bytes(orjson.dumps({**figures, "machine": machine}, option=orjson.OPT_INDENT_2))
        print(f"== {name} ({machine['seconds']:.0f} s)")
        _show(figures)


def _campaign(words: list[str]) -> None:
    if not words or words[0] not in CAMPAIGNS:
        sys.exit(f"faults needs one of: {', '.join(CAMPAIGNS)}")
    figures: dict[str, Any] = importlib.import_module(f"benchmarks.faults.{words[0]}").run(words[1:])
    (OUT / f"faults-{words[0]}.json").write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2))
    _show(figures)
    if any(figures.get(name) for name in BAD):
        sys.exit(1)


def _show(figures: dict[str, Any], indent: str = "") -> None:
    for key, value in figures.items():
        if isinstance(value, list):
            for item in value:
                print(indent + "  ".join(f"{name}={_number(part)}" for name, part in item.items()))
        elif isinstance(value, dict):
            print(indent + f"{key}: " + "  ".join(f"{name}={_number(part)}" for name, part in value.items()))
        else:
            print(indent + f"{key}: {_number(value)}")


def _number(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
