"""TRL's `GRPOTrainer` over our rollout function: its batches are `paddock samples`, and failures count for nothing."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.training.trl.conftest import Drive

from paddock.cli import main
from paddock.training.core.advantages import advantages
from paddock.training.core.settings import GrpoSettings

pytestmark = pytest.mark.trainer
Found = dict[str, Any]
SIZE = 4


@pytest.fixture(scope="module")
def found(drive: Drive, tmp_path_factory: pytest.TempPathFactory) -> Found:
    return drive("drive_plain.py", tmp_path_factory.mktemp("trl"))


@pytest.fixture(scope="module")
def stored(found: Found) -> list[Found]:
    (run,) = Path(found["trained"]["out"]).iterdir()
    lines = run / "samples.jsonl"
    assert main(["samples", str(run), "--mode", "whole", "--out", str(lines)]) in (0, None)
    return [json.loads(line) for line in lines.read_text().splitlines()]


def rows_of(batch: Found) -> list[Found]:
    """The rows of a batch without their padding."""
    rows = []
    for nth in range(len(batch["advantages"])):
        prompt = [
            token for token, on in zip(batch["prompt_ids"][nth], batch["prompt_mask"][nth], strict=True) if on
        ]  # fmt: skip
        there = batch["completion_mask"][nth]
        length = sum(there)
        assert there == [1] * length + [0] * (len(there) - length)
        rows.append(
            {
                "ids": prompt + batch["completion_ids"][nth][:length],
                "mask": [0] * len(prompt) + batch["tool_mask"][nth][:length],
                "log_probs": [0.0] * len(prompt) + batch["sampling_per_token_logps"][nth][:length],
                "advantage": batch["advantages"][nth],
            }
        )
    return rows


def test_every_row_of_a_batch_is_a_rollout_or_a_mask_of_zeros(found: Found, stored: list[Found]) -> None:
    rows = [row for batch in found["trained"]["batches"] for row in rows_of(batch)]
    given = [row for row in rows if any(row["mask"])]
    assert len(rows) == 36
    assert len(given) == len(stored) == 28
    for row in given:
        assert any(
            line["ids"] == row["ids"]
            and line["loss_mask"] == row["mask"]
            and line["log_probs"] == pytest.approx(row["log_probs"], abs=1e-7)
            for line in stored
        )


def test_failed_rollouts_enter_no_baseline_and_no_loss(found: Found, stored: list[Found]) -> None:
    """TRL's advantages are ours over the members with a reward, but for its larger epsilon."""
    settings = GrpoSettings(use_leave_one_out_baseline=False)
    compared = 0
    for batch in found["trained"]["batches"]:
        rows = rows_of(batch)
        for first in range(0, len(rows), SIZE):
            group = rows[first : first + SIZE]
            rewards = [reward_of(row, stored) for row in group]
            for row, wanted in zip(group, advantages(rewards, settings), strict=True):
                if wanted is None:
                    assert row["advantage"] == 0.0
                    assert not any(row["mask"])
                else:
                    assert row["advantage"] == pytest.approx(wanted, abs=1e-3)
            compared += None in rewards and len({reward for reward in rewards if reward is not None}) == 2
    assert compared, "no group had a failed member beside a right and a wrong one"


def test_the_loss_of_a_step_is_the_mean_over_trained_tokens(found: Found) -> None:
    """On-policy every ratio is 1: the loss is the mean of the advantages over the tokens that are trained on."""
    for batch, loss in zip(found["trained"]["batches"], found["trained"]["losses"], strict=True):
        rows = rows_of(batch)
        total = sum(row["advantage"] * sum(row["mask"]) for row in rows)
        assert math.isclose(loss, -total / sum(sum(row["mask"]) for row in rows), abs_tol=1e-5)


def test_no_rollout_runs_while_a_step_is_computed(found: Found) -> None:
    """A trainer that is busy asks for nothing, and nothing is left of what it asked for."""
    assert found["trained"]["stalls"] == [[0, 0]] * 3


def test_ignored_log_probs_are_told_once(found: Found) -> None:
    (text,) = found["trained"]["said"]
    assert "log-probs" in text
    assert "use_vllm" in text


def test_a_mode_of_several_samples_is_refused(found: Found) -> None:
    assert "sample_mode" in found["refused"]["text"]


def reward_of(row: Found, stored: list[Found]) -> float | None:
    """The reward of a row; None: it failed."""
    same = [line for line in stored if line["log_probs"] == pytest.approx(row["log_probs"], abs=1e-7)]
    return same[0]["reward"] if same else None
