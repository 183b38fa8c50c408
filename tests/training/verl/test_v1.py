"""verl's V1 worker over our agent loop: a failed member has no sample in the queue, a rollout may have several."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.training.verl.conftest import Drive
from tests.training.verl.test_batches import stored_samples

pytestmark = pytest.mark.trainer


@pytest.fixture(scope="module", params=["whole", "dynamic_history"])
def found(request: pytest.FixtureRequest, drive: Drive, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is in the queue after two groups of five, of which each fifth call failed."""
    folder = tmp_path_factory.mktemp("v1")
    drive("drive_v1.py", folder, request.param)
    answer: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return answer


def test_a_failed_member_is_not_in_the_queue(found: dict[str, Any]) -> None:
    members = [(int(row["key"][5]), int(row["key"].split("_")[1])) for row in found["rows"]]
    assert len(members) == len(set(members)) == 8
    assert found["status"] == {"group0": "finished", "group1": "finished"}
    assert {tag["status"] for tag in found["tags"]} == {"success"}
    assert {(tag["min_global_steps"], tag["max_global_steps"]) for tag in found["tags"]} == {(3, 3)}


def test_the_queue_holds_what_paddock_samples_gives(found: dict[str, Any]) -> None:
    stored = stored_samples(found["out"])
    assert len(stored) == 8
    for row in found["rows"]:
        uid, session, _ = row["key"].split("_")
        line = stored[int(Path(uid).name.removeprefix("group")), int(session)]
        assert row["prompt"] + row["response"] == line["ids"]
        assert [0] * len(row["prompt"]) + row["mask"] == line["loss_mask"]
        assert row["log_probs"] == pytest.approx(line["log_probs"][len(row["prompt"]) :], abs=1e-7)
        assert row["reward"] == line["reward"]


def test_its_baseline_is_that_of_the_members_that_are_there(found: dict[str, Any]) -> None:
    rewards: dict[str, list[float]] = {}
    for row in found["rows"]:
        rewards.setdefault(row["key"].split("_")[0], []).append(row["reward"])
    for row, sign in zip(found["rows"], found["signs"], strict=True):
        own = rewards[row["key"].split("_")[0]]
        difference = row["reward"] - sum(own) / len(own)
        assert sign == (difference > 0) - (difference < 0)
