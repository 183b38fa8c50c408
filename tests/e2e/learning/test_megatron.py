"""The whole loop with its policy on Megatron-core, tensor parallel over two processes.

What `.ci/run` has of it: the policy computes and exports what the one on torch does (`tests/training/grpo/megatron`),
and a whole run with that one (`tests/e2e/test_training_swe.py`).
"""

from pathlib import Path

import pytest
from tests.e2e.learning import runs

STEPS = 3
LEARNING_STEPS = 100
ROUNDING = 1e-4
CONFIG = ("tests/e2e/learning/megatron.yaml", *(one for one in runs.SMALL[1:] if "optimizer" not in one))
pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(2 * runs.RUN_S)]


def test_engines_sample_with_the_weights_that_were_trained(small_task: Path, tmp_path: Path) -> None:
    """Each step with those of the one before: then every token is of the step's own weights."""
    out = tmp_path / "run"
    age = "grpo.async_grpo.max_trajectory_age_steps=0"
    runs.train(out, *CONFIG, *runs.data(small_task), f"grpo.max_num_steps={STEPS}", age)
    metrics = [line["metrics"] for line in runs.lines(out)]
    assert [one["train/skipped_updates"] for one in metrics] == [0] * STEPS
    assert all(one["train/grad_norm"] > 0 for one in metrics)
    assert all(one["train/logprob_error/current/tokens"] == one["train/tokens"] for one in metrics)
    assert max(one["train/logprob_error/current/max_abs"] for one in metrics) < ROUNDING
    assert (out / "checkpoints" / f"step_{STEPS}" / "policy" / "megatron" / "metadata.json").is_file()
    assert (out / "export" / "model.safetensors").is_file()


def test_the_reward_rises_with_weights_sent_in_flight(small_task: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    runs.train(out, *CONFIG, *runs.data(small_task), f"grpo.max_num_steps={LEARNING_STEPS}")
    assert runs.rise(out) < 0.01, runs.rewards(out)
    metrics = [line["metrics"] for line in runs.lines(out)]
    assert any(one["train/mixed_versions_rate"] > 0 for one in metrics)
    assert max(one.get("train/logprob_error/current/max_abs", 0) for one in metrics) < ROUNDING
