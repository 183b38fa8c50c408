"""`python -m benchmarks.cluster.eval_driver CASE`: a collection as `paddock eval` runs it, and what its driver took.

CASE    JSON: `config`, `settings` of the collection and its folder `out`.
Prints  one JSON object, which is about this process alone, without its workers, from when these are ready:
        CPU milliseconds per rollout; memory before, and the most at any time, in MiB; rollouts per second.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import psutil

from benchmarks.processes import peak_mib
from paddock.collect import EvalSettings, Plan, make_plan
from paddock.collect.crew import open_crew
from paddock.collect.locations import ServerLocations
from paddock.collect.run import open_run
from paddock.config import load
from paddock.server.loops import loop_factory, spare_collector
from paddock.types import JsonObject


def main() -> None:
    case = orjson.loads(sys.argv[1])
    plan = make_plan(load([case["config"]]), EvalSettings(**case["settings"]))
    spare_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        figures = runner.run(_collect(plan, Path(case["out"])))
    print(orjson.dumps(figures).decode())


async def _collect(plan: Plan, out: Path) -> JsonObject:
    with open_run(plan, out) as run:
        async with open_crew(run.plan, ServerLocations()) as crew:
            before_mib, cpu = psutil.Process().memory_info().rss / 2**20, time.process_time()
            collected = await run.collect(crew)
            cpu = time.process_time() - cpu
    if collected.n_verdicts != plan.n_rollouts:
        raise RuntimeError(f"{out}: {collected.n_verdicts} of {plan.n_rollouts} rollouts ended in a verdict")
    figures: dict[str, Any] = {
        "cpu_ms": cpu * 1e3 / plan.n_rollouts,
        "before_mib": before_mib,
        "peak_mib": peak_mib(),
        "per_s": collected.summary[0]["rollouts_per_s"],
    }
    return figures


if __name__ == "__main__":
    main()
