"""What a cluster costs beside the same work without one: sandboxes of a node, and rollouts of workers on nodes of Ray.

Sandboxes   a command, and a life from create to destroy, over a node on loopback and here, in pairs. Bounds: at most
            2 ms and 5 ms more.
Rollouts    per second over a few workers (`pivot`); by the number in flight over many (`in_flight`): as much CPU of
            the driver at 1,024 as at 64. On nodes too where PADDOCK_VLLM_PYTHON names an interpreter with Ray and
            this machine can have machines of its own (`paddock.testing.machines`): they share its cores.
It takes half an hour on two cores, so it runs only where it is named.
"""

from typing import Any

import psutil

from benchmarks import nodes
from benchmarks.bounds import FigureBound
from benchmarks.cluster import in_flight, pivot
from benchmarks.cluster.collections import open_bench, why_no_cluster

OVER_MS = {"exec": 2.0, "create and destroy": 5.0}
"""What a call over a node may take beyond the same one here."""


def run() -> dict[str, Any]:
    over_one = nodes.one_node()
    figures: dict[str, Any] = {name: comparison.figures() for name, comparison in over_one.items()}
    figures["sandboxes_load"] = psutil.getloadavg()[0]
    bounds = [FigureBound(f"{name}: over_ms", limit).check(over_one[name].over_ms) for name, limit in OVER_MS.items()]
    if (why := why_no_cluster()) is not None:
        figures["over_nodes"] = f"skipped: {why}"
    with open_bench(in_flight.WORKERS) as bench:
        figures["pivot"], of_pivot = pivot.measure(bench)
        levels, of_levels = in_flight.measure(bench)
    return {**figures, **levels, "bounds": [*bounds, *of_pivot, *of_levels]}
