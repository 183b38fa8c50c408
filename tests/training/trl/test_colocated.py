"""Rollouts over a vLLM in the trainer's own process: exact, and only while a batch is rolled out."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.learning import runs

CLOSE = 1e-4
pytestmark = [pytest.mark.vllm, pytest.mark.trainer, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    python, folder = runs.vllm_python(), tmp_path_factory.mktemp("colocated")
    runs.call("scripts/train_demo.py", "make", folder / "made", "--small", "--steps", "100")
    env = {
        **runs.environment(),
        "PYTHONPATH": f"{runs.ROOT / 'src'}:{runs.ROOT}",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "OMP_NUM_THREADS": "1",
    }
    script = Path(__file__).parent / "drive_colocated.py"
    done = subprocess.run(
        [python, "-P", str(script), str(folder)], cwd=runs.ROOT, env=env, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return result


def test_all_members_of_two_batches_have_a_reward_and_an_exact_sample(found: dict[str, Any]) -> None:
    assert [len(rewards) for rewards in found["rewards"]] == [24, 24]
    assert found["masks"] == [None] * 48
    assert found["answers"] > 4


def test_log_probs_are_those_at_the_trainers_temperature(found: dict[str, Any]) -> None:
    for distances in found["distances"]:
        assert len(distances) > 24
        assert max(distances) < CLOSE


def test_beside_a_batch_a_call_is_a_failure_without_a_reward(found: dict[str, Any]) -> None:
    outcome, failure = found["beside"]
    assert outcome == "infra"
    assert "no batch" in failure
