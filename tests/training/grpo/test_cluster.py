"""Training over machines of their own: each role runs on its node, nothing but checkpoints is on a shared disk."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.testing.ray_cluster import RayCluster, ray_cluster

ROOT = Path(__file__).resolve().parents[3]
PYTHON = os.environ.get("PADDOCK_VLLM_PYTHON")
DRIVER_S = 300.0
RUN_S = 1500.0
STEPS = 6
SMALL = (
    "configs/train_demo.yaml",
    "~data.validation",
    "grpo.val_at_start=false",
    "grpo.val_at_end=false",
    "grpo.async_grpo.enabled=false",
    "grpo.num_prompts_per_step=2",
    "grpo.num_generations_per_prompt=4",
    f"grpo.max_num_steps={STEPS}",
    "policy.train_micro_batch_size=8",
    # Weights change at each step, whatever the rewards: an engine that kept the old ones would show.
    "policy.optimizer.kwargs.weight_decay=20.0",
    "checkpointing.save_period=1",
    "+cluster.address=auto",
    "+cluster.labels={policy: node=m1, rollouts: node=m3}",
    "+paddock.restart=1",
)
AGREE = 2e-6
"""Of trainer and engine about log-probs, in the mean, on a CPU in float32."""
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
    assert found["ranks"] == ["m1", "m2"]
    over_two_nodes, alone = found["losses"]
    assert over_two_nodes == pytest.approx(alone, abs=1e-5)
    assert len(set(alone)) == len(alone)


@pytest.mark.long
@pytest.mark.timeout(2 * RUN_S)
def test_a_run_over_three_machines_goes_on_without_the_one_that_lost_its_power(
    cluster: RayCluster, shared: Path
) -> None:
    first, second, third = cluster.nodes
    made = [str(PYTHON), "scripts/train_demo.py", "make", str(shared / "task"), "--small", "--steps", "20"]
    subprocess.run(made, check=True, capture_output=True, cwd=ROOT, timeout=RUN_S)
    rows = first.disk / "train.jsonl"
    (shared / "task" / "train.jsonl").rename(rows)
    out, checkpoints = first.disk / "run", shared / "checkpoints"
    own = [f"policy.model_name={shared / 'task' / 'model'}", f"data.train.data_path={rows}"]
    own += [f"checkpointing.checkpoint_dir={checkpoints}"]
    told = shared / "driver.log"
    with told.open("wb") as log:
        command = ["-m", "tests.e2e.learning.driver", *SMALL, *own, "--out", str(out)]
        driver = cluster.driver(command, stdout=log, stderr=log, cwd=ROOT)
    end = time.monotonic() + RUN_S
    while not (checkpoints / "step_1").exists():
        assert driver.poll() is None, told.read_text()
        assert time.monotonic() < end, told.read_text()
        time.sleep(0.05)
    engines = (out / "logs" / "engines.log").read_text()
    second.kill()
    assert driver.wait(RUN_S) == 0, told.read_text()
    assert f"engines on m2 ({second.address})" in told.read_text()
    assert "it goes on by itself, 1 times at most" in told.read_text()
    assert (out / "logs" / "engines.log").read_text().startswith(engines)
    assert sorted(path.name for path in (out / "logs").iterdir()) == ["engines.log", "policy.log", "rollouts.log"]
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    errors = [line["metrics"]["train/logprob_error/all/mean_abs"] for line in lines]
    assert max(errors) < AGREE
    assert (checkpoints / "export" / "config.json").exists()
    assert not any((machine.disk / "run").exists() for machine in (second, third))
