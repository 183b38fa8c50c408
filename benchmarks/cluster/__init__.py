"""What a cluster costs beside the same work without one: sandboxes of a node, and rollouts of workers on nodes of Ray.

Sandboxes   a command, and a life from create to destroy, over a node on loopback and here, in pairs. Targets: at most
            2 ms and 5 ms more.
Rollouts    per second over a few workers (`pivot`); by the number in flight over many (`in_flight`). Target: as much
            CPU of the driver at 1,024 as at 64. On nodes too where PADDOCK_VLLM_PYTHON names an interpreter with Ray
            and this machine can have machines of its own (`paddock.testing.machines`): they share its cores.
It takes a quarter of an hour on two cores, so it runs only where it is named.
"""

from typing import Any

import psutil

from benchmarks import nodes
from benchmarks.cluster import in_flight, pivot
from benchmarks.cluster.collections import open_bench, why_no_cluster


def run() -> dict[str, Any]:
    figures: dict[str, Any] = {**nodes.one_node(), "sandboxes_load": psutil.getloadavg()[0]}
    if (why := why_no_cluster()) is not None:
        figures["over_nodes"] = f"skipped: {why}"
    with open_bench(in_flight.WORKERS) as bench:
        return {**figures, "pivot": pivot.measure(bench), **in_flight.measure(bench)}
