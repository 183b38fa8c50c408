"""A vLLM whose ranks are on two machines answers as one process does, with new weights and after a rank's death."""

import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.testing.machines import why_no_machines
from paddock.testing.ray_cluster import ray_cluster

ROOT = Path(__file__).resolve().parents[3]
PYTHON = os.environ.get("PADDOCK_VLLM_PYTHON")
WHY_NOT = why_no_machines()
RUN_S = 1500.0
MEAN, MAX = 2e-6, 1e-4
"""Float32 on one CPU against another implementation of the same model: five to ten times the worst that was seen."""
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.long,
    pytest.mark.timeout(2 * RUN_S),
    pytest.mark.skipif(not PYTHON, reason="PADDOCK_VLLM_PYTHON: no environment with Ray"),
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every machine sees."""
    with tempfile.TemporaryDirectory(prefix="shared-", dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"pipeline_parallel_size": 2}, id="stages"),
        pytest.param({"serve_kwargs": {"tensor_parallel_size": 2}}, id="tensors"),
    ],
)
def test_ranks_on_two_machines_are_one_model(
    monkeypatch: pytest.MonkeyPatch, shared: Path, changes: dict[str, Any]
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    make = [str(PYTHON), str(ROOT / "scripts" / "tiny_model.py"), str(shared / "model"), "--steps", "0"]
    subprocess.run(make, check=True, capture_output=True, timeout=RUN_S)
    with ray_cluster(2, Path(PYTHON or "")) as cluster:
        driver = cluster.driver(
            ["-m", "tests.training.grpo.measure_ranks", str(shared), json.dumps(changes)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        out, err = driver.communicate(timeout=RUN_S)
        assert driver.returncode == 0, err
    found = json.loads(out.splitlines()[-1])
    assert (found["nodes"], found["workers"], found["sent"]) == (["m1", "m2"], 2, [7, {}])
    for when in ("first", "later", "again"):
        assert statistics.fmean(found[when]) < MEAN
        assert max(found[when]) < MAX
    assert statistics.fmean(found["stale"]) > 100 * MEAN, "the weights are others"
    assert_a_lost_rank_is_nobodys_answer(found["lost"])
    assert found["starts"] == [1, 2]


def assert_a_lost_rank_is_nobodys_answer(lost: Any) -> None:
    """Calls that were being answered end in a failure of the machine, by name, which is tried again."""
    assert lost["running"] == [True] * len(lost["calls"])
    for status, error in lost["calls"]:
        assert (status, error["owner"], error["retryable"], error["doubtful"]) == (503, "infra", True, False)
        assert error["kind"] in ("upstream_status", "upstream_connection")
    state, why = lost["down"]
    assert state == "down"
    assert why
