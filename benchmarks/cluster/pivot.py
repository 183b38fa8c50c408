"""Pivot rollouts per second over a number of workers: processes here, and the same on nodes of Ray, in turns."""

from statistics import median
from typing import Any

from benchmarks.cluster.collections import ClusterBench, CollectionCase

ROWS = 2000
ROUNDS = 3
WORKERS = (1, 2, 4)


def measure(bench: ClusterBench) -> list[dict[str, Any]]:
    return [_case(bench, n_workers) for n_workers in WORKERS]


def _case(bench: ClusterBench, n_workers: int) -> dict[str, Any]:
    case = CollectionCase(rollouts=ROWS, workers=n_workers, in_flight=64, mean_wait_s=0.0)
    kinds = ("here", "over_nodes") if bench.cluster else ("here",)
    rounds = [{kind: bench.collect(case, over_nodes=kind == "over_nodes") for kind in kinds} for _ in range(ROUNDS)]
    figures: dict[str, Any] = {"workers": n_workers}
    for kind in kinds:
        figures[f"per_s_{kind}"] = median(costs[kind].driver["per_s"] for costs in rounds)
    if bench.cluster:
        figures["ratio"] = median(
            costs["over_nodes"].driver["per_s"] / costs["here"].driver["per_s"] for costs in rounds
        )
    figures["load"] = median(costs["here"].load for costs in rounds)
    return figures
