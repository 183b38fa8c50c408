"""One trainer and the workers of three engines, without vLLM: each byte leaves once, and a dead engine ends nothing."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent / "group_faults.py"
TIMEOUT_S, SLACK_S = 3.0, 8.0
"""As the script has it; and what a loaded machine takes beside it."""
CASES = (
    *("whole", "killed", "stopped", "stopped_before", "refuses", "does_not_come"),
    *("joins_in_word", "updates_in_word", "answers_late", "aborted", "never_made"),
)
pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(450)]


@pytest.fixture(scope="module")
def outcomes(vllm_python: str) -> dict[str, Any]:
    argv = [vllm_python, "-P", str(SCRIPT), *CASES]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=400, check=False, env={**os.environ})
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


def test_each_weight_leaves_the_trainer_once_for_all_engines_in_buckets(outcomes: dict[str, Any]) -> None:
    whole = outcomes["whole"]
    assert (whole["failed"], whole["versions"]) == ([], ["2", "2", "2"])
    assert whole["came"] == {"a": True, "b": True, "c": True}
    assert whole["sent"] == pytest.approx(1.0, abs=0.01)
    assert whole["largest"] == 1 << 20
    assert whole["buckets"] == 11


@pytest.mark.parametrize(
    ("case", "blamed", "within_s"),
    [
        ("killed", "b", 0.0),
        ("stopped", "b", 2 * TIMEOUT_S),
        ("stopped_before", "c", 2 * TIMEOUT_S),
        ("refuses", "a", 0.0),
        ("does_not_come", "a", 2 * TIMEOUT_S),
    ],
)
def test_who_breaks_the_group_is_found_in_time_and_the_others_get_all_over_another(
    outcomes: dict[str, Any], case: str, blamed: str, within_s: float
) -> None:
    ended = outcomes[case]
    assert list(ended["blamed"]) == [blamed]
    assert ended["took_s"] < within_s + SLACK_S
    assert (ended["failed"], set(ended["came"].values())) == ([], {True})


def test_over_nccl_each_living_rank_aborts_its_own_communicator(outcomes: dict[str, Any]) -> None:
    ended = outcomes["aborted"]
    assert ended["blamed"] == ["b"]
    assert ended["aborted"] == [0, 1, 3], "the trainer, and the workers of a and c"
    assert ended["took_s"] < 2 * TIMEOUT_S + SLACK_S
    assert (ended["failed"], ended["came"]) == ([], {"a": True, "c": True})


def test_a_communicator_that_is_not_made_in_time_ends_the_run_by_name(outcomes: dict[str, Any]) -> None:
    assert outcomes["never_made"] == {"kind": "transfer_stuck", "retryable": False}
