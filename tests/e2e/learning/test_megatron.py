"""The whole loop with its policy on Megatron-core, tensor parallel over two processes."""

from pathlib import Path

import pytest
from tests.e2e.learning import runs

STEPS = 3
LEARNING_STEPS = 100
ROUNDING = 1e-4
CONFIG = ("tests/e2e/learning/megatron.yaml", *(one for one in runs.SMALL[1:] if "optimizer" not in one))
pytestmark = [pytest.mark.vllm, pytest.mark.timeout(2 * runs.RUN_S)]


@pytest.mark.slow
def test_engines_sample_with_the_weights_that_were_sent_while_they_sampled(small_task: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    runs.train(out, *CONFIG, *runs.data(small_task), f"grpo.max_num_steps={STEPS}", "checkpointing.save_period=2")
    told = [line["metrics"] for line in runs.lines(out)]
    assert [one["train/skipped_updates"] for one in told] == [0] * STEPS
    assert told[0]["train/logprob_error/current/max_abs"] < ROUNDING
    assert sum(one.get("train/logprob_error/current/tokens", 0) for one in told[1:]) > 0
    assert max(one.get("train/logprob_error/current/max_abs", 0) for one in told[1:]) < ROUNDING
    assert (out / "checkpoints" / f"step_{STEPS}" / "policy" / "megatron" / "metadata.json").is_file()
    assert (out / "export" / "model.safetensors").is_file()


@pytest.mark.long
def test_the_reward_rises(small_task: Path, tmp_path: Path) -> None:
    runs.train(tmp_path / "run", *CONFIG, *runs.data(small_task), f"grpo.max_num_steps={LEARNING_STEPS}")
    assert runs.rise(tmp_path / "run") < 0.01, runs.rewards(tmp_path / "run")
