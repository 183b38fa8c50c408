"""Claims about the adapter against the real SkyRL, in whose environment `drive` runs."""

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.training.skyrl.http_engine import log_prob

from paddock.training.core.advantages import advantages
from paddock.training.core.settings import GrpoSettings
from paddock.types import JsonObject

VARIABLE = "PADDOCK_SKYRL_PYTHON"
ROOT = Path(__file__).parents[3]
SCENARIOS = (
    "rows",
    "whole",
    "step_wise",
    "failed_whole",
    "failed_step_wise",
    "failed_all",
    "failed_but_one",
    "simulated",
    "unread",
)
SIZE = 5
STALENESS, PROMPTS = 1, 2

pytestmark = [
    pytest.mark.trainer,
    pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no interpreter"),
    pytest.mark.timeout(900),
]


def command(folder: Path, *scenarios: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "RAY_USAGE_STATS_ENABLED": "0"}
    words = [os.environ[VARIABLE], "-m", "tests.training.skyrl.drive", str(folder), *scenarios]
    return subprocess.Popen(
        words, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> JsonObject:
    folder = tmp_path_factory.mktemp("skyrl")
    process = command(folder, *SCENARIOS)
    said, _ = process.communicate()
    assert process.returncode == 0, said[-4000:]
    return {name: orjson.loads((folder / f"{name}.json").read_bytes()) for name in SCENARIOS}


def stored_samples(runs: str, mode: str) -> dict[tuple[int, int], list[JsonObject]]:
    """The lines of `paddock samples`, by row and member."""
    (run,) = Path(runs).iterdir()
    words = [sys.executable, "-m", "paddock", "samples", "--mode", mode, str(run)]
    lines = subprocess.run(words, check=True, capture_output=True, cwd=ROOT).stdout.splitlines()
    found: dict[tuple[int, int], list[JsonObject]] = {}
    for line in map(orjson.loads, lines):
        found.setdefault((line["_ng_task_index"], line["_ng_rollout_index"]), []).append(line)
    return found


@pytest.mark.parametrize(("scenario", "mode"), [("whole", "whole"), ("step_wise", "branch")])
def test_ids_masks_log_probs_and_rewards_are_those_of_paddock_samples(
    results: JsonObject, scenario: str, mode: str
) -> None:
    output = results[scenario]["output"]
    stored = stored_samples(results[scenario]["runs"], mode)
    given: dict[tuple[int, int], list[Any]] = {}
    for nth, (instance, member) in enumerate(output["trajectory_ids"]):
        given.setdefault((int(instance), member), []).append(nth)
    assert given.keys() == stored.keys()
    assert len(given) == PROMPTS * SIZE
    for key, numbers in given.items():
        for nth, line in zip(numbers, stored[key], strict=True):
            prompt = output["prompt_token_ids"][nth]
            assert prompt + output["response_ids"][nth] == line["ids"]
            assert [0] * len(prompt) + output["loss_masks"][nth] == line["loss_mask"]
            assert [0.0] * len(prompt) + output["rollout_logprobs"][nth] == line["log_probs"]
            assert output["rewards"][nth] == line["reward"]


def test_log_probs_are_the_engines_also_where_the_config_asks_for_none(results: JsonObject) -> None:
    output = results["step_wise"]["output"]
    for response, given in zip(output["response_ids"], output["rollout_logprobs"], strict=True):
        assert given == [log_prob(position, token) for position, token in enumerate(response)]


def test_engines_are_asked_as_the_config_says(results: JsonObject) -> None:
    for call in results["whole"]["calls"]:
        sampling = call["sampling_params"]
        assert sampling["temperature"] == 0.7
        assert sampling["logprobs"] == 1
        assert sampling["max_tokens"] in (100, 101)
        assert sampling["min_tokens"] == 1
    assert len({call["session"] for call in results["whole"]["calls"]}) == PROMPTS * SIZE


def test_rows_come_through_skyrls_dataset_as_they_were(results: JsonObject) -> None:
    assert results["rows"]["read"] == results["rows"]["wrote"]


def by_group(output: JsonObject) -> Iterator[list[int]]:
    """The numbers of each group's rows."""
    groups: dict[str, list[int]] = {}
    for nth, (instance, _) in enumerate(output["trajectory_ids"]):
        groups.setdefault(instance, []).append(nth)
    yield from groups.values()


def row_advantage(batch: JsonObject, nth: int) -> float:
    """The advantage that SkyRL gave the tokens of a row."""
    pairs = zip(batch["advantages"][nth], batch["response_mask"][nth], strict=True)
    values = [value for value, there in pairs if there]
    assert max(values) == pytest.approx(min(values))
    return float(values[0])


def test_without_failed_members_of_a_step_wise_group_the_others_have_the_advantages_that_ours_have(
    results: JsonObject,
) -> None:
    output, batch = results["failed_step_wise"]["output"], results["failed_step_wise"]["batch"]
    for numbers in by_group(output):
        assert len(numbers) == SIZE - 1
        rewards: list[float | None] = [output["rewards"][nth] for nth in numbers]
        ours = advantages([*rewards, None], GrpoSettings(use_leave_one_out_baseline=False))[:-1]
        assert [row_advantage(batch, nth) for nth in numbers] == pytest.approx(ours, abs=1e-5)


def test_a_masked_row_leaves_the_baseline_and_widens_advantages_as_the_page_says(results: JsonObject) -> None:
    output, batch = results["failed_whole"]["output"], results["failed_whole"]["batch"]
    for numbers in by_group(output):
        live = [nth for nth in numbers if any(output["loss_masks"][nth])]
        assert (len(numbers), len(live)) == (SIZE, SIZE - 1)
        rewards: list[float | None] = [output["rewards"][nth] for nth in live]
        ours = advantages(rewards, GrpoSettings(use_leave_one_out_baseline=False))
        factor = math.sqrt((SIZE - 1) / (len(live) - 1))
        expected = [factor * (value or 0.0) for value in ours]
        assert [row_advantage(batch, nth) for nth in live] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("scenario", ["failed_whole", "failed_step_wise", "failed_all", "failed_but_one"])
def test_failed_members_have_no_token_in_the_loss(results: JsonObject, scenario: str) -> None:
    output, batch = results[scenario]["output"], results[scenario]["batch"]
    assert batch["gradient_of_masked"] == 0.0
    for nth, mask in enumerate(output["loss_masks"]):
        size = len(mask)
        assert batch["mask"][nth][-size:] == mask
        assert sum(batch["mask"][nth]) == sum(mask)
        assert batch["sequences"][nth][-size:] == output["response_ids"][nth]
        assert batch["engine"][nth][-size:] == pytest.approx(output["rollout_logprobs"][nth], abs=1e-6)


def test_a_group_of_which_one_is_left_has_no_advantage(results: JsonObject) -> None:
    batch = results["failed_but_one"]["batch"]
    assert len(results["failed_but_one"]["output"]["loss_masks"]) > 1
    assert {value for row in batch["advantages"] for value in row} == {0.0}


def test_where_all_fail_a_group_is_one_masked_row(results: JsonObject) -> None:
    output = results["failed_all"]["output"]
    assert [len(numbers) for numbers in by_group(output)] == [1, 1]
    assert results["failed_all"]["batch"]["loss"] == 0.0
    assert results["failed_all"]["metrics"]["paddock/failed_mean"] == 1.0


def test_the_asynchronous_loop_runs_to_its_end_and_holds_rollouts_back(results: JsonObject) -> None:
    made = results["simulated"]
    assert [step["step"] for step in made["steps"]] == [1, 2, 3, 4]
    for step in made["steps"]:
        assert step["asked"] <= PROMPTS * (STALENESS + step["step"])
    assert all(step["rows"] == PROMPTS * (SIZE - 1) for step in made["steps"])
    assert made["controls"].count("pause") == made["controls"].count("resume") == 5
    assert len(set(made["salts"])) > 1


def test_a_trainer_that_stops_reading_holds_rollouts_back(results: JsonObject) -> None:
    """There are sixteen groups to be had: four epochs of four rows."""
    first, later = results["unread"]["counts"]
    assert PROMPTS <= first <= PROMPTS * (STALENESS + 1)
    assert later == first
    assert results["unread"]["calls"] == first * SIZE
