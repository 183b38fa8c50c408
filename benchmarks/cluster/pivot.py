"""Pivot rollouts per second over a number of workers: processes here, and the same on nodes of Ray, in turns.

Bound   two workers do so many times the work of one, in the same round; it can hold only where two cores are idle.
"""

from statistics import median
from typing import Any

from benchmarks.bounds import FigureBound
from benchmarks.cluster.collections import ClusterBench, CollectionCase, CollectionCost

ROWS = 2000
ROUNDS = 3
WORKERS = (1, 2, 4)
TWICE = 1.8
"""Rollouts per second of two workers over those of one."""

Round = dict[tuple[str, int], CollectionCost]


def measure(bench: ClusterBench) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The figures, and how those that have bounds hold them."""
    rounds = [_round(bench) for _ in range(ROUNDS)]
    twice = {kind: [_per_s(costs, kind, 2) / _per_s(costs, kind, 1) for costs in rounds] for kind in bench.kinds}
    bounds = [FigureBound(f"two workers {kind}", TWICE, is_least=True).check(twice[kind]) for kind in bench.kinds]
    return [_figures(bench, n_workers, rounds) for n_workers in WORKERS], bounds


def _round(bench: ClusterBench) -> Round:
    return {
        (kind, n_workers): bench.collect(
            CollectionCase(rollouts=ROWS, workers=n_workers, in_flight=64, mean_wait_s=0.0),
            over_nodes=kind == "over_nodes",
        )
        for n_workers in WORKERS
        for kind in bench.kinds
    }


def _figures(bench: ClusterBench, n_workers: int, rounds: list[Round]) -> dict[str, Any]:
    figures: dict[str, Any] = {"workers": n_workers}
    for kind in bench.kinds:
        figures[f"per_s_{kind}"] = median(_per_s(costs, kind, n_workers) for costs in rounds)
    if bench.cluster:
        figures["ratio"] = median(
            _per_s(costs, "over_nodes", n_workers) / _per_s(costs, "here", n_workers) for costs in rounds
        )
    figures["load"] = median(costs["here", n_workers].load for costs in rounds)
    return figures


def _per_s(costs: Round, kind: str, n_workers: int) -> float:
    return costs[kind, n_workers].driver["per_s"]
