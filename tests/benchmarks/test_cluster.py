"""Claims about the benchmarks of clusters: what they say of slots, drivers and machines is what happened."""

from pathlib import Path

import pytest
from benchmarks import capacity
from benchmarks.bounds import FigureBound
from benchmarks.cluster.collections import ClusterBench, CollectionCase
from benchmarks.cluster.waiting_model import WorkerTimes
from benchmarks.looks import SandboxMemory


def test_a_gap_is_from_the_end_of_a_call_to_the_next_one_in_its_slot() -> None:
    calls = [(0.0, 2.0), (0.5, 1.0), (1.25, 3.0), (2.5, 4.0)]
    assert WorkerTimes(calls, 0.0, 0.0).gaps_s(2) == [0.25, 0.5]
    assert WorkerTimes(calls[:2], 0.0, 0.0).gaps_s(2) == []


def test_what_a_worker_had_at_most_shows_whether_it_kept_to_its_share() -> None:
    assert WorkerTimes([(0.0, 2.0), (0.5, 1.0), (1.25, 3.0), (2.5, 4.0)], 0.0, 0.0).most_at_once == 2
    assert WorkerTimes([(0.0, 1.0), (1.0, 2.0)], 0.0, 0.0).most_at_once == 1


@pytest.mark.parametrize(
    ("rounds", "is_least", "bound"),
    [
        ([1.0, 1.1, 1.9], False, "met"),
        ([2.5, 2.6, 9.0], False, "missed"),
        ([1.0, 1.9, 9.0], False, "noisy"),
        ([2.5, 2.6, 9.0], True, "met"),
        ([1.0, 1.1, 1.9], True, "missed"),
    ],
)
def test_a_bound_is_met_by_the_middle_half_of_rounds_or_not_told(
    rounds: list[float], is_least: bool, bound: str
) -> None:
    line = FigureBound("figure", 2.0, is_least).check(rounds)
    assert (line["bound"], line["value"]) == (bound, sorted(rounds)[1])


def test_what_a_hundred_take_follows_from_few_and_many() -> None:
    few = capacity.MachineUse(
        4, SandboxMemory(4, 90.0, 20.0, 16.0, 8.0), 2.0, 120.0, 8.0, 4.0, 40.0, 400.0, 4000.0, 50.0
    )
    many = capacity.MachineUse(
        16, SandboxMemory(16, 96.0, 64.0, 48.0, 32.0), 14.0, 144.0, 20.0, 10.0, 100.0, 1600.0, 16000.0, 60.0
    )
    figures = capacity.figures(few, many)
    assert figures["node_per_rollout"] == {
        "keeper_mib": 4.0,
        "runner_mib": 3.0,
        "commands_mib": 2.0,
        "overlay_mib": 1.0,
        "cpu_s": 1.0,
    }
    assert figures["agents_per_rollout"] == {"memory_mib": 2.0, "cpu_s": 0.5, "grading_cpu_s": 5.0, "grading_mib": 60.0}
    assert figures["per_100"] == {
        "node_memory_mib": 96.0 + 900.0,
        "agents_memory_mib": 144.0 + 84 * 2.0,
        "overlays_mib": 100.0,
        "node_cpu_s": 100.0,
        "agents_cpu_s": 550.0,
        "network_mib": 100 * 1100 / 1024,
    }


@pytest.mark.slow
def test_a_driver_of_workers_tells_what_it_took_and_each_slot_is_refilled(tmp_path: Path) -> None:
    cost = ClusterBench(tmp_path, None).collect(
        CollectionCase(rollouts=40, workers=2, in_flight=8, mean_wait_s=0.01), over_nodes=False
    )
    assert set(cost.driver) == {"cpu_ms", "before_mib", "peak_mib", "per_s"}
    assert cost.driver["peak_mib"] >= cost.driver["before_mib"]
    assert len(cost.gaps_s) == 40 - 8
    assert min(cost.gaps_s) > 0
    assert 0 < cost.largest_share <= 1
    assert cost.worker_mib > 0
    assert cost.cpu_ms > cost.driver["cpu_ms"] > 0
