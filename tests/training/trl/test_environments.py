"""Why there is no adapter for TRL's `environment_factory`: what becomes there of a rollout that failed.

A test that fails here says that TRL has changed, and that training/trl/README.md has to.
"""

from typing import Any

import pytest
from tests.training.trl.conftest import Drive

pytestmark = pytest.mark.trainer
Found = dict[str, Any]
FAILED = 0


@pytest.fixture(scope="module")
def found(drive: Drive, tmp_path_factory: pytest.TempPathFactory) -> Found:
    return drive("drive_environments.py", tmp_path_factory.mktemp("trl"))


def test_a_failure_of_a_tool_is_told_the_model_which_goes_on(found: Found) -> None:
    text = found["failed_tool"]["texts"][FAILED]
    assert "the sandbox is gone" in text
    assert text.index("There is nothing.") > text.index("the sandbox is gone")


def test_a_failed_rollout_can_be_kept_out_of_the_baseline_and_not_out_of_the_loss(found: Found) -> None:
    """The loss is divided by its tokens too, where a mask of zeros would leave it as that of the others."""
    failed_tool = found["failed_tool"]
    trained = [sum(mask) for mask in failed_tool["masks"]]
    advantages = failed_tool["advantages"]
    assert advantages[FAILED] == 0.0
    assert sum(advantages) == pytest.approx(0.0, abs=1e-5)
    total = -sum(advantage * n for advantage, n in zip(advantages, trained, strict=True))
    others = sum(trained) - trained[FAILED]
    assert trained[FAILED] > 0.1 * others
    assert abs(total) > 1.0
    assert failed_tool["loss"] == pytest.approx(total / sum(trained), rel=1e-3)
    assert failed_tool["loss"] != pytest.approx(total / others, rel=0.05)


def test_an_environment_that_does_not_start_ends_training(found: Found) -> None:
    assert found["failed_start"] == {"raised": "the sandbox is gone"}
