"""verl's own batches over our agent loop: they are `paddock samples`, and failures reach neither baseline nor loss."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.training.verl.conftest import Drive

from paddock.cli import main
from paddock.training.core.advantages import advantages
from paddock.training.core.settings import GrpoSettings

pytestmark = pytest.mark.trainer
Row = dict[str, Any]


@pytest.fixture(scope="module")
def found(drive: Drive, tmp_path_factory: pytest.TempPathFactory) -> Row:
    """What one process of verl's found, scene by scene."""
    folder = tmp_path_factory.mktemp("verl")
    drive("drive_batches.py", folder)
    answer: Row = json.loads((folder / "found.json").read_text())
    return answer


def stored_samples(out: str) -> dict[tuple[int, int], Row]:
    """What `paddock samples` gives of the rollouts that a scene stored, by group and member."""
    (run,) = Path(out).iterdir()
    lines = run / "samples.jsonl"
    assert main(["samples", str(run), "--mode", "whole", "--out", str(lines)]) in (0, None)
    samples = [json.loads(line) for line in lines.read_text().splitlines()]
    return {(line["_ng_task_index"], line["_ng_rollout_index"]): line for line in samples}


def test_verl_is_asked_with_its_own_sampling_and_a_key_for_each_rollout(found: Row) -> None:
    scene = found["whole_batch"]
    assert scene["sampling"] == {"temperature": 1.0, "top_p": 1, "max_tokens": 160, "logprobs": True}
    assert len(set(scene["keys"])) == 12
    assert scene["steps"] == [[3], [3]]


def test_masks_log_probs_and_rewards_have_the_shape_of_the_responses(found: Row) -> None:
    shapes = found["whole_batch"]["shapes"]
    for name in ("responses", "response_mask", "rollout_log_probs", "rm_scores"):
        assert shapes[name] == [12, 160]
    assert shapes["prompts"] == [12, 4000]


def test_no_mask_holds_a_pad_token_and_none_stands_outside_the_response(found: Row) -> None:
    """verl pads a mask that is shorter than its response with the id of the pad token."""
    for scene in found.values():
        for row in [*scene.get("rows", ()), *scene.get("long_prompt", ()), *scene.get("short", ())]:
            assert set(row["mask"]) <= {0, 1}
            assert len(row["mask"]) == len(row["response"]) == len(row["log_probs"])
            assert all(log_prob == 0 for log_prob, on in zip(row["log_probs"], row["mask"], strict=True) if not on)


def test_a_prompt_that_verl_has_no_room_for_goes_on_in_the_response_masked(found: Row) -> None:
    scene = found["cut_batch"]
    stored = stored_samples(scene["out"])
    for row in scene["long_prompt"]:
        line = stored[row["group"], row["member"]]
        assert len(row["prompt"]) == 1000 < line["loss_mask"].index(1)
        assert row["prompt"] + row["response"] == line["ids"]
        assert row["mask"] == line["loss_mask"][1000:]


def test_ids_mask_and_log_probs_are_cut_together(found: Row) -> None:
    for nth, row in enumerate(sorted(found["cut_batch"]["short"], key=lambda row: row["member"])):
        assert row["response"] == list(range(20, 28)), nth
        assert row["mask"] == [1] * 8
        assert len(row["log_probs"]) == 8
        assert all(log_prob < 0 for log_prob in row["log_probs"])


def groups_of(rows: list[Row]) -> dict[int, list[int]]:
    places = defaultdict(list)
    for place, row in enumerate(rows):
        places[row["group"]].append(place)
    return places


def test_failed_members_enter_no_baseline(found: Row) -> None:
    scene = found["failed_batch"]
    failed = [row for row in scene["rows"] if row["mask_reason"]]
    assert len(failed) == 6
    assert len(scene["rows"]) == 30
    settings = GrpoSettings(use_leave_one_out_baseline=False)
    for places in groups_of(scene["rows"]).values():
        rewards = [None if scene["rows"][place]["mask_reason"] else scene["rows"][place]["reward"] for place in places]
        ours = [value or 0.0 for value in advantages(rewards, settings)]
        assert [scene["paddock_grpo"][place] for place in places] == pytest.approx(ours, abs=1e-5)


def test_the_estimator_of_verl_alone_would_count_them_as_zeros(found: Row) -> None:
    """The reason for an estimator of our own."""
    scene = found["failed_batch"]
    assert any(
        abs(scene["grpo"][place] - scene["paddock_grpo"][place]) > 1e-3
        for place, row in enumerate(scene["rows"])
        if not row["mask_reason"]
    )


def test_failed_members_enter_no_loss(found: Row) -> None:
    scene = found["failed_batch"]
    failed = {place for place, row in enumerate(scene["rows"]) if row["mask_reason"]}
    assert not failed & set(scene["losses"]["rows"])
    assert scene["losses"]["token-mean gradient outside"] == 0
    assert scene["losses"]["seq-mean-token-mean gradient outside"] == 0


def test_a_failed_first_sample_takes_nothing_from_the_others(found: Row) -> None:
    """verl looks at the first sample for log-probs, and drops all rewards where one is missing."""
    scene = found["lone_survivor"]
    assert {"rm_scores", "rollout_log_probs"} <= set(scene["fields"])
    assert sorted(row["mask_reason"] or "" for row in scene["rows"]) == ["", "infra"]
    assert found["failed_batch"]["extra"] == ["masked"]


def test_a_lone_survivor_is_compared_with_nothing(found: Row) -> None:
    alone = found["lone_survivor"]["alone"]
    assert alone["paddock_grpo"] == [0.0, 0.0]
    assert max(alone["grpo"]) > 0.5


def test_a_group_of_its_own_for_a_failed_member_is_refused_by_verl(found: Row) -> None:
    """The way around the estimator that verl's trainer does not have."""
    assert "not the same object" in found["lone_survivor"]["own_uid"]


def test_no_more_rollouts_run_than_there_is_room_for(found: Row) -> None:
    assert found["held_back"] == {"most": 2, "calls": 12}


def test_an_aborted_answer_goes_on_under_the_weights_that_came(found: Row) -> None:
    scene = found["aborted"]
    (row,) = scene["rows"]
    assert row["response"] == scene["ids"]
    assert scene["prompts"][1] == scene["prompts"][0] + 5
    assert scene["bounds"] == [160, 155]
    assert scene["keys"][0] == scene["keys"][1]
    assert scene["steps"] == [3, 4]


def test_how_an_answer_ended(found: Row) -> None:
    """verl says `completed` both for an answer that ended and for one that reached its bound."""
    scene = found["finish_reasons"]
    assert scene["reasons"] == ["stop", "length", "stop", "abort", "abort", "stop"]
    assert scene["asked"] == ["key", [1], {"max_tokens": 3, "temperature": 0.5, "logprobs": True}]
