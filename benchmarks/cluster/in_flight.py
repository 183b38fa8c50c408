"""What a rollout costs the driver while few or many are in flight, at one rate: its wait grows with their number.

Workers are processes here, and the same on nodes of Ray, in turns; each level once in each round.
Figures medians over rounds. `cpu_ms` is the driver's, by rollout; `peak_mib` its memory, `grown_mib` that beyond what
        it had when the workers were ready; `worker_mib` the largest worker's; `gap_ms` from the
        end of one call of the model to the begin of the next in the same slot: grading, journal, hand-out and the way
        there and back, `largest_share` what a worker had in flight over its even share.
Bounds  `flat`, each round's CPU at most by that at least in flight; no worker has more than its share.
"""

from collections.abc import Mapping
from statistics import median, quantiles
from typing import Any

from benchmarks.bounds import FigureBound
from benchmarks.cluster.collections import ClusterBench, CollectionCase, CollectionCost

LEVELS = (64, 256, 1024)
WORKERS = 8
PER_S = 100.0
"""Rollouts: over nodes of Ray on two cores about half of what there is room for."""
ROLLOUTS = 2048
ROUNDS = 3
FLAT = 1.1
"""CPU of the driver for a rollout at 1,024 in flight over that at 64."""

Round = Mapping[int, CollectionCost]


def measure(bench: ClusterBench) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The figures, and how those that have bounds hold them."""
    kinds = bench.kinds
    rounds = [{kind: _round(bench, over_nodes=kind == "over_nodes") for kind in kinds} for _ in range(ROUNDS)]
    of_kinds = {kind: [round_[kind] for round_ in rounds] for kind in kinds}
    figures = {
        f"in_flight_{kind}": [_level(level, [costs[level] for costs in of_kinds[kind]]) for level in LEVELS]
        for kind in kinds
    }
    return figures, [line for kind in kinds for line in _bounds(kind, of_kinds[kind])]


def _round(bench: ClusterBench, *, over_nodes: bool) -> Round:
    return {
        level: bench.collect(CollectionCase(ROLLOUTS, WORKERS, level, mean_wait_s=level / PER_S), over_nodes=over_nodes)
        for level in LEVELS
    }


def _bounds(kind: str, rounds: list[Round]) -> list[dict[str, Any]]:
    least, most = LEVELS[0], LEVELS[-1]
    flat = [costs[most].driver["cpu_ms"] / costs[least].driver["cpu_ms"] for costs in rounds]
    shares = [cost.largest_share for costs in rounds for cost in costs.values()]
    return [
        FigureBound(f"flat {kind}", FLAT).check(flat),
        FigureBound(f"largest share {kind}", 1.0).check(shares),
    ]


def _level(level: int, costs: list[CollectionCost]) -> dict[str, Any]:
    gaps = [quantiles(cost.gaps_s, n=100) for cost in costs]
    return {
        "in_flight": level,
        "per_s": median(cost.driver["per_s"] for cost in costs),
        "cpu_ms": median(cost.driver["cpu_ms"] for cost in costs),
        "peak_mib": median(cost.driver["peak_mib"] for cost in costs),
        "grown_mib": median(cost.driver["peak_mib"] - cost.driver["before_mib"] for cost in costs),
        "worker_mib": median(cost.worker_mib for cost in costs),
        "largest_share": max(cost.largest_share for cost in costs),
        "gap_ms_p50": median(cuts[49] for cuts in gaps) * 1e3,
        "gap_ms_p99": median(cuts[98] for cuts in gaps) * 1e3,
        "load": median(cost.load for cost in costs),
    }
