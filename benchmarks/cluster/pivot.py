"""Pivot rollouts per second over a number of workers: processes here, and the same on nodes of Ray, in turns.

CPU     by rollout, of all processes. Here one worker is the command itself; beside two of them the command only hands
        out and writes, and that is CPU, too.
Bounds  two workers do so many times the work of one: by the clock, against what two processes of this machine do at
        once (`cores`) in the same round; and by CPU, which other work on the machine changes less: two cores that are
        busy with nothing else do at best twice the CPU of one worker over that of two.
"""

from statistics import median
from typing import Any, NamedTuple

from benchmarks.bounds import FigureBound
from benchmarks.cluster import cores
from benchmarks.cluster.collections import ClusterBench, CollectionCase, CollectionCost

ROWS = 6000
"""So many that what a process does once, with its first rollouts, does not show."""
ROUNDS = 3
WORKERS = (1, 2, 4)
TWICE = 1.8
"""Rollouts per second of two workers over those of one, where two processes do twice the work of one."""


class Round(NamedTuple):
    """One measurement of each case."""

    two_over_one: float
    """What two processes do at once over what one does."""
    costs: dict[tuple[str, int], CollectionCost]

    def per_s(self, kind: str, n_workers: int) -> float:
        return self.costs[kind, n_workers].driver["per_s"]

    def rate_ratio(self, kind: str) -> float:
        """Of two workers, by the clock, on two cores that are whole."""
        return self.per_s(kind, 2) / self.per_s(kind, 1) * 2 / self.two_over_one

    def cpu_ratio(self, kind: str) -> float:
        """Of two workers at best, by CPU."""
        return 2 * self.costs[kind, 1].cpu_ms / self.costs[kind, 2].cpu_ms


def measure(bench: ClusterBench) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The figures, and how those that have bounds hold them."""
    rounds = [_round(bench) for _ in range(ROUNDS)]
    bounds = [
        FigureBound(f"two workers {kind}, {what}", TWICE, is_least=True).check([ratio(of, kind) for of in rounds])
        for kind in bench.kinds
        for what, ratio in (("by the clock", Round.rate_ratio), ("by CPU", Round.cpu_ratio))
    ]
    return [_figures(bench, n_workers, rounds) for n_workers in WORKERS], bounds


def _round(bench: ClusterBench) -> Round:
    costs = {
        (kind, n_workers): bench.collect(
            CollectionCase(rollouts=ROWS, workers=n_workers, in_flight=64, mean_wait_s=0.0),
            over_nodes=kind == "over_nodes",
        )
        for n_workers in WORKERS
        for kind in bench.kinds
    }
    return Round(cores.two_over_one(), costs)


def _figures(bench: ClusterBench, n_workers: int, rounds: list[Round]) -> dict[str, Any]:
    figures: dict[str, Any] = {"workers": n_workers}
    for kind in bench.kinds:
        figures[f"per_s_{kind}"] = median(of.per_s(kind, n_workers) for of in rounds)
        figures[f"cpu_ms_{kind}"] = median(of.costs[kind, n_workers].cpu_ms for of in rounds)
        figures[f"driver_cpu_ms_{kind}"] = median(of.costs[kind, n_workers].driver["cpu_ms"] for of in rounds)
    if bench.cluster:
        figures["ratio"] = median(of.per_s("over_nodes", n_workers) / of.per_s("here", n_workers) for of in rounds)
    figures["two_processes"] = median(of.two_over_one for of in rounds)
    figures["load"] = median(of.costs["here", n_workers].load for of in rounds)
    return figures
