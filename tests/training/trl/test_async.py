"""TRL's asynchronous trainer over our worker: its batches are `paddock samples`, and failures are in none."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.training.trl.comparison import our_loss
from tests.training.trl.conftest import Drive

from paddock.cli import main
from paddock.training.core.advantages import advantages
from paddock.training.core.settings import GrpoSettings

pytestmark = pytest.mark.trainer
Found = dict[str, Any]


@pytest.fixture(scope="module")
def found(drive: Drive, tmp_path_factory: pytest.TempPathFactory) -> Found:
    return drive("drive_async.py", tmp_path_factory.mktemp("trl"))


@pytest.fixture(scope="module")
def stored(found: Found) -> dict[int, list[Found]]:
    """What `paddock samples` gives of the rollouts that were trained on, by group."""
    (run,) = Path(found["trained"]["out"]).iterdir()
    lines = run / "samples.jsonl"
    assert main(["samples", str(run), "--mode", "branch", "--out", str(lines)]) in (0, None)
    groups: dict[int, list[Found]] = {}
    for line in map(json.loads, lines.read_text().splitlines()):
        groups.setdefault(line["_ng_task_index"], []).append(line)
    return groups


def batch_samples(found: Found) -> list[Found]:
    return [sample for batch in found["trained"]["batches"] for sample in batch]


def test_every_sample_of_a_batch_is_one_of_paddock_samples(found: Found, stored: dict[int, list[Found]]) -> None:
    samples = batch_samples(found)
    assert len(samples) >= 12
    for sample in samples:
        assert any(
            (line["ids"], line["loss_mask"], line["reward"]) == (sample["ids"], sample["mask"], sample["reward"])
            and line["log_probs"] == pytest.approx(sample["log_probs"], abs=1e-7)
            for line in stored[sample["group"]]
        )


def test_advantages_are_ours_over_the_members_with_a_reward(found: Found, stored: dict[int, list[Found]]) -> None:
    settings = GrpoSettings(use_leave_one_out_baseline=False)
    for sample in batch_samples(found):
        rewards = [line["reward"] for line in stored[sample["group"]]]
        assert 2 <= len(rewards) <= 5
        wanted = dict(zip(rewards, advantages(rewards, settings), strict=True))
        assert sample["advantage"] == pytest.approx(wanted[sample["reward"]])


def test_failed_members_are_in_no_batch(found: Found) -> None:
    failed, ended = found["trained"]["failed"], found["trained"]["ended"]
    assert failed >= 4
    assert ended >= 3 * failed
    assert {sample["reward"] for sample in batch_samples(found)} == {0.0, 1.0}
    assert any(found["trained"]["metrics"]["rollout/masked_total"])


def test_the_loss_of_trl_is_ours(found: Found) -> None:
    losses = found["trained"]["losses"]
    assert len(losses) >= 3
    for given in losses:
        assert math.isclose(our_loss(given, found["trained"]["epsilon"]), given["loss"], abs_tol=1e-5)


def test_weights_move_and_are_sent(found: Found) -> None:
    assert found["trained"]["moved"]
    assert len(found["trained"]["sent"]) == 4
    assert set(found["trained"]["sent"]) == {found["trained"]["sent"][0]}


def test_nothing_runs_after_training(found: Found) -> None:
    assert found["trained"]["after_stop"] == [0, 0, 0]
    assert found["trained"]["threads"] == []


def test_a_trainer_that_reads_nothing_holds_rollouts_back(found: Found) -> None:
    unread, still = found["held_back"]["unread"]
    # Of 4 members: one group and a half are queued, one waits to be, and two have ended or run.
    assert unread == still <= 20
    assert found["held_back"]["most_running"] <= 8


def test_a_trainer_that_is_busy_with_a_step_holds_rollouts_back(found: Found) -> None:
    calls = found["stalled"]["calls"]
    assert len(calls) == 3
    for step, (before, after) in enumerate(calls, 1):
        # 4 of each step were trained on; 6 are queued, and 3 groups wait or have ended.
        assert before == after <= 4 * step + 6 + 12


def test_samples_have_the_versions_that_sampled_them(found: Found) -> None:
    samples = found["held_back"]["samples"]
    assert found["held_back"]["versions"] == [1, 2]
    assert [sample["version"] for sample in samples[:6]] == [1] * 6
    assert samples[-1]["version"] == 2


def test_a_stop_ends_what_runs_and_a_start_goes_on(found: Found) -> None:
    assert found["held_back"]["stopped"] == [0, 0]
    assert found["held_back"]["again"] == 20


def test_no_engine_is_called_while_weights_change(found: Found) -> None:
    assert found["paused"] == {"during": 0}


def test_a_trainer_is_told_when_nothing_can_be_rewarded(found: Found) -> None:
    lost = found["lost"]
    assert lost["kind"] == "groups_lost"
    assert "3 groups in a row" in lost["text"]
    assert "engine_failed" in lost["text"]
    assert lost["queued"] == 0


def test_what_was_sampled_of_unknown_weights_is_in_no_batch(found: Found) -> None:
    """Two of the third group: sampled by an engine that was started again, and in the middle of an update."""
    restarted = found["restarted"]
    assert restarted["groups"] == [0] * 4 + [1] * 4 + [2] * 2 + [3] * 4
    assert restarted["versions"] == [2] * 4 + [1] * 4 + [2] * 2 + [2] * 4


def test_gradients_of_packed_rows_on_a_cpu_are_those_of_each_sample(found: Found) -> None:
    packed = found["packed"]
    assert packed["tokens"] < 12 * 37, "nothing was packed"
    assert packed["totals"][0] == pytest.approx(packed["totals"][1], rel=1e-5)
    assert packed["apart"] < 1e-4
