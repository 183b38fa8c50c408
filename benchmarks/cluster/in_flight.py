"""What a rollout costs the driver while few or many are in flight, at one rate: its wait grows with their number.

Workers are processes here, and the same on nodes of Ray, in turns; each level once in each round.
Figures medians over rounds. `cpu_ms` is the driver's, by rollout; `peak_mib` its memory, `grown_mib` that beyond what
        it had when the workers were ready; `worker_mib` the largest worker's; `gap_ms` from the
        end of one call of the model to the begin of the next in the same slot: grading, journal, hand-out and the way
        there and back. `flat` is the median of each round's CPU at most by that at least in flight.
"""

from collections.abc import Mapping
from statistics import median, quantiles
from typing import Any

from benchmarks.cluster.collections import ClusterBench, CollectionCase, CollectionCost

LEVELS = (64, 256, 1024)
WORKERS = 8
PER_S = 100.0
"""Rollouts: over nodes of Ray on two cores about half of what there is room for."""
ROLLOUTS = 2048
ROUNDS = 3

Round = Mapping[int, CollectionCost]


def measure(bench: ClusterBench) -> dict[str, Any]:
    kinds = ("here", "over_nodes") if bench.cluster else ("here",)
    rounds = [{kind: _round(bench, over_nodes=kind == "over_nodes") for kind in kinds} for _ in range(ROUNDS)]
    return {f"in_flight_{kind}": _figures([round_[kind] for round_ in rounds]) for kind in kinds}


def _round(bench: ClusterBench, *, over_nodes: bool) -> Round:
    return {
        level: bench.collect(CollectionCase(ROLLOUTS, WORKERS, level, mean_wait_s=level / PER_S), over_nodes=over_nodes)
        for level in LEVELS
    }


def _figures(rounds: list[Round]) -> list[dict[str, Any]]:
    least, most = LEVELS[0], LEVELS[-1]
    figures = [_level(level, [costs[level] for costs in rounds]) for level in LEVELS]
    figures[-1]["flat"] = median(costs[most].driver["cpu_ms"] / costs[least].driver["cpu_ms"] for costs in rounds)
    return figures


def _level(level: int, costs: list[CollectionCost]) -> dict[str, Any]:
    gaps = [quantiles(cost.gaps_s, n=100) for cost in costs]
    return {
        "in_flight": level,
        "per_s": median(cost.driver["per_s"] for cost in costs),
        "cpu_ms": median(cost.driver["cpu_ms"] for cost in costs),
        "peak_mib": median(cost.driver["peak_mib"] for cost in costs),
        "grown_mib": median(cost.driver["peak_mib"] - cost.driver["before_mib"] for cost in costs),
        "worker_mib": median(cost.worker_mib for cost in costs),
        "gap_ms_p50": median(cuts[49] for cuts in gaps) * 1e3,
        "gap_ms_p99": median(cuts[98] for cuts in gaps) * 1e3,
        "load": median(cost.load for cost in costs),
    }
