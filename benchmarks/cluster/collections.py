"""Collections of pivot rollouts with a model in each worker that waits, over processes here or over nodes of Ray."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import psutil
import yaml

from benchmarks.cluster.waiting_model import WorkerTimes, read_times
from benchmarks.workers import write_rows
from paddock.testing.machines import machines, why_no_machines
from paddock.testing.ray_cluster import RayCluster
from paddock.types import JsonObject

PYTHON = "PADDOCK_VLLM_PYTHON"
"""Names an interpreter with Ray."""
ROOT = Path(__file__).parents[2]
_PATH = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
_MODEL = "benchmarks.cluster.waiting_model:WaitingModel"


class CollectionCase(NamedTuple):
    """What is collected."""

    rollouts: int
    workers: int
    in_flight: int
    mean_wait_s: float


class CollectionCost(NamedTuple):
    """What the driver said of itself, what slots waited, and what a worker had of memory at most."""

    driver: Mapping[str, float]
    gaps_s: list[float]
    largest_share: float
    """What a worker had in flight at most, over its even share: above 1, gaps say nothing."""
    worker_mib: float
    cpu_ms: float
    """By rollout, of the driver and of all workers."""
    load: float
    """Of the machine, over the last minute."""


class ClusterBench(NamedTuple):
    """A folder for runs, and the cluster where there is one."""

    folder: Path
    cluster: RayCluster | None

    @property
    def kinds(self) -> Sequence[str]:
        """Where its collections run."""
        return ("here", "over_nodes") if self.cluster else ("here",)

    def collect(self, case: CollectionCase, *, over_nodes: bool) -> CollectionCost:
        """One collection, in a process of its own."""
        own = Path(tempfile.mkdtemp(dir=self.folder))
        times = own / "times"
        times.mkdir()
        words = ["-m", "benchmarks.cluster.eval_driver", orjson.dumps(_words(case, own, times, over_nodes)).decode()]
        options: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process: subprocess.Popen[str]
        if over_nodes:
            assert self.cluster is not None
            process = self.cluster.driver(words, **options)
        else:
            process = subprocess.Popen([sys.executable, *words], **options)
        with process:
            out, err = process.communicate()
        if process.returncode:
            raise RuntimeError(f"the driver ended with {process.returncode}: {err[-2000:]}")
        figures = orjson.loads(out.splitlines()[-1])
        workers = read_times(times)
        share = case.in_flight // case.workers
        return CollectionCost(
            figures,
            [gap for worker in workers for gap in worker.gaps_s(share)],
            max(worker.most_at_once for worker in workers) / share,
            max(worker.peak_mib for worker in workers),
            figures["cpu_ms"] + (_cpu_ms(workers, case) if over_nodes or case.workers > 1 else 0.0),
            psutil.getloadavg()[0],
        )


def _cpu_ms(workers: Sequence[WorkerTimes], case: CollectionCase) -> float:
    return sum(worker.cpu_s for worker in workers) * 1e3 / case.rollouts


def _words(case: CollectionCase, own: Path, times: Path, over_nodes: bool) -> JsonObject:
    rows = write_rows(own / "rows.jsonl", case.rollouts)
    config = own / "pivot.yaml"
    config.write_text(yaml.safe_dump(_config(case, times)))
    settings = {"rows": [str(rows)], "concurrency": case.in_flight, "workers": case.workers}
    over = {"cluster": "auto"} if over_nodes else {}
    return {"config": str(config), "settings": {**settings, **over}, "out": str(own / "run")}


def _config(case: CollectionCase, times: Path) -> JsonObject:
    agent = {
        "resources_server": {"type": "resources_servers", "name": "pivot"},
        "model_server": {"type": "models_servers", "name": "policy_model"},
    }
    return {
        "pivot": {"resources_servers": {"pivot": {"comparator": "semantic"}}},
        "pivot_agent": {"agents": {"single_step": agent}},
        "policy_model": {"models_servers": {_MODEL: {"mean_wait_s": case.mean_wait_s, "times": str(times)}}},
    }


def why_no_cluster() -> str | None:
    """Why there can be no cluster of Ray here; None: there can."""
    if not os.environ.get(PYTHON):
        return f"{PYTHON} names no interpreter with Ray"
    return why_no_machines()


@contextmanager
def open_bench(nodes: int) -> Iterator[ClusterBench]:
    """A cluster of so many nodes, where this machine can have one."""
    # Actors have it from their nodes: whatever Paddock the interpreter with Ray has, they run this one.
    os.environ.update(_PATH)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-", dir="/var/tmp") as name:
        if why_no_cluster() is not None:
            yield ClusterBench(Path(name), None)
            return
        with machines(nodes) as made:
            cluster = RayCluster(made, Path(os.environ[PYTHON]), cpus=2, object_store_mib=100)
            # Many that start at once on few cores are given up by Ray before they are up.
            for node in made:
                cluster.start(node)
            yield ClusterBench(Path(name), cluster)
