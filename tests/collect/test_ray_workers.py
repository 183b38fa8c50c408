"""Workers on the nodes of a Ray cluster: the collection is that of one process, also where a node loses power."""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.testing.ray_cluster import RayCluster, ray_cluster

PYTHON = os.environ.get("PADDOCK_VLLM_PYTHON")
ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not PYTHON, reason="PADDOCK_VLLM_PYTHON: no environment with Ray"),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2"),
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
