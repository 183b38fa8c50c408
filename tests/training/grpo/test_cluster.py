"""Training over machines of their own: each role runs on its node, nothing but checkpoints is on a shared disk."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.testing.ray_cluster import RayCluster, ray_cluster

ROOT = Path(__file__).resolve().parents[3]
PYTHON = os.environ.get("PADDOCK_VLLM_PYTHON")
DRIVER_S = 300.0
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not PYTHON, reason="PADDOCK_VLLM_PYTHON: no environment with Ray"),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2"),
]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every machine sees."""
    with tempfile.TemporaryDirectory(prefix="shared-", dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[RayCluster]:
    # Of what its nodes run, too.
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with ray_cluster(3, Path(PYTHON or "")) as made:
        yield made


@pytest.fixture
def found(cluster: RayCluster, shared: Path) -> Any:
    logs = cluster.nodes[0].disk / "run" / "logs"
    driver = cluster.driver(
        ["-m", "tests.training.grpo.measure_cluster", str(logs)],
        env={"SHARED": str(shared)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    out, err = driver.communicate(timeout=DRIVER_S)
    assert driver.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def test_roles_run_where_they_are_placed_and_what_lacks_is_named(found: Any) -> None:
    assert found["nodes"] == found["hosts"] == {"policy": "m2", "engines": "m3", "rollouts": "m1"}
    assert found["logs"] == {
        "policy": "on m2\n",
        "engines": "on m3\nlast words\n",
        "rollouts": "on m1\n",
    }
    assert found["died"][:2] == ["InfraError", "process_died"]
    assert "the process of engines on m3 (" in found["died"][2]
    assert "last words" in found["died"][2]
    assert found["nowhere"] == ["placement", found["nowhere"][1]]
    assert "no node has the label node=m9 (cluster.labels.policy)" in found["nowhere"][1]
    assert found["not_shared"][0] == "not_shared"
    assert "m2 (" in found["not_shared"][1]
