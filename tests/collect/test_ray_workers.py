"""Workers on the nodes of a Ray cluster: the collection is that of one process, also where a node loses power."""

import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.testing.machines import why_no_machines
from paddock.testing.ray_cluster import RayCluster, ray_cluster

PYTHON = os.environ.get("PADDOCK_VLLM_PYTHON")
ROOT = Path(__file__).parents[2]
WHY_NOT = why_no_machines()
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not PYTHON, reason="PADDOCK_VLLM_PYTHON: no environment with Ray"),
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with ray_cluster(3, Path(PYTHON or "")) as cluster:
        yield cluster


def evaluate(cluster: RayCluster, out: Path, *words: str) -> "subprocess.Popen[Any]":
    config = str(ROOT / "configs/demo.yaml")
    command = ["-m", "paddock", "eval", config, "--oracle", "--out", str(out), "--quiet", *words]
    return cluster.driver(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def rewards(folder: Path) -> dict[tuple[int, int], float]:
    lines = [orjson.loads(line) for line in (folder / "rollouts.jsonl").read_bytes().splitlines()]
    keys = Counter((line["_ng_task_index"], line["_ng_rollout_index"]) for line in lines)
    assert set(keys.values()) == {1}
    return {(line["_ng_task_index"], line["_ng_rollout_index"]): line["reward"] for line in lines}


def test_a_collection_over_nodes_is_that_of_one_process(cluster: RayCluster) -> None:
    head = cluster.nodes[0]
    one, many = head.disk / "one", head.disk / "many"
    local = evaluate(cluster, one, "--repeats", "4")
    out, _ = local.communicate(timeout=120)
    assert local.returncode == 0, out
    spread = evaluate(cluster, many, "--repeats", "4", "--cluster", "auto", "--workers", "3")
    out, _ = spread.communicate(timeout=240)
    assert spread.returncode == 0, out
    assert rewards(many) == rewards(one)
    assert len(rewards(one)) >= 8


@pytest.mark.long
@pytest.mark.parametrize("fault", ["power", "cable"])
def test_a_node_that_is_lost_or_cut_off_loses_and_doubles_no_rollout(cluster: RayCluster, fault: str) -> None:
    out, last = cluster.nodes[0].disk / fault, cluster.nodes[2]
    running = evaluate(cluster, out, "--repeats", "200", "--cluster", "auto", "--workers", "3")
    until_written(out, 300, running)
    if fault == "power":
        last.kill()
    else:
        last.cut()
        time.sleep(5)
        last.mend()
    text, _ = running.communicate(timeout=240)
    assert running.returncode == 0, text
    assert Counter(member for _, member in rewards(out)) == dict.fromkeys(range(200), n_rows(out))
    if fault == "power":
        last.boot()
        cluster.start(last)


def until_written(folder: Path, lines: int, running: "subprocess.Popen[Any]") -> None:
    deadline = time.monotonic() + 120
    file = folder / "rollouts.jsonl"
    while not file.exists() or file.read_bytes().count(b"\n") < lines:
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


def n_rows(folder: Path) -> int:
    return len({row for row, _ in rewards(folder)})
