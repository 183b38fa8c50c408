"""The claim that no token is older than the config allows, and that with age 0 the loop is on-policy."""

from pathlib import Path

import pytest
from tests.e2e.learning import runs

STEPS = 5
ROUNDING = 1e-4
"""How far log-probs in float32 may differ, trainer against engine."""
pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(2 * runs.RUN_S)]


@pytest.mark.parametrize("age", [0, 1])
def test_tokens_are_as_old_as_they_may_be(small_task: Path, tmp_path: Path, age: int) -> None:
    out = tmp_path / "run"
    limits = (f"grpo.max_num_steps={STEPS}", f"grpo.async_grpo.max_trajectory_age_steps={age}")
    runs.train(out, *runs.SMALL, *runs.data(small_task), *limits)
    require_age(out, age)


def require_age(out: Path, age: int) -> None:
    found = [line["metrics"] for line in runs.lines(out)]
    assert len(found) == STEPS
    for metrics in found:
        assert metrics["train/staleness/max"] <= age
        assert metrics["train/masked/unknown_weights"] == 0
        assert metrics.get("train/logprob_error/current/mean_abs", 0) < 2e-6
        assert metrics.get("train/logprob_error/current/max_abs", 0) < ROUNDING
        if age == 0:
            assert metrics["train/logprob_error/current/tokens"] == metrics["train/tokens"], (
                "all tokens are of these weights"
            )
            assert metrics["train/probs_ratio_min"] == pytest.approx(1, abs=ROUNDING)
            assert metrics["train/probs_ratio_max"] == pytest.approx(1, abs=ROUNDING)
    if age:
        assert max(metrics["train/staleness/max"] for metrics in found) == age, "nothing was sampled ahead"
