"""One trainer and the workers of three engines, without vLLM: each byte leaves once, and a dead engine ends nothing."""

import json
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent / "group_faults.py"
TIMEOUT_S, SLACK_S = 3.0, 8.0
"""As the script has it; and what a loaded machine takes beside it."""
CASES = {
    "gloo": ("whole", "killed", "stopped", "stopped_before", "refuses", "does_not_come"),
    "memory": (
        *("whole", "elsewhere", "killed", "stopped", "stopped_before"),
        *("joins_in_word", "updates_in_word", "answers_late"),
    ),
    "nccl": ("aborted", "never_made"),
}
Outcomes = Callable[[str], dict[str, Any]]
pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(450)]


@pytest.fixture(scope="module")
def outcomes(vllm_python: str) -> Outcomes:
    @cache
    def find(transport: str) -> dict[str, Any]:
        argv = [vllm_python, "-P", str(SCRIPT), transport, *CASES[transport]]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=400, check=False, env={**os.environ})
        assert done.returncode == 0, done.stderr
        answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answers

    return find


@pytest.mark.parametrize("transport", ["gloo", "memory"])
def test_each_weight_leaves_the_trainer_once_for_all_engines_in_buckets(outcomes: Outcomes, transport: str) -> None:
    whole = outcomes(transport)["whole"]
    assert (whole["failed"], whole["versions"], whole["transport"]) == ([], ["2", "2", "2"], transport)
    assert whole["came"] == {"a": True, "b": True, "c": True}
    assert whole["sent"] == pytest.approx(1.0, abs=0.01)
    assert whole["largest"] == 1 << 20
    assert whole["buckets"] == 11


def test_where_one_engine_does_not_share_the_trainers_memory_all_get_the_weights_over_gloo(outcomes: Outcomes) -> None:
    whole = outcomes("memory")["elsewhere"]
    assert (whole["failed"], whole["transport"]) == ([], "gloo")
    assert whole["came"] == {"a": True, "b": True, "c": True}


@pytest.mark.parametrize(
    ("transport", "case", "blamed", "within_s"),
    [
        *((transport, "killed", "b", 0.0) for transport in ("gloo", "memory")),
        *((transport, "stopped", "b", 2 * TIMEOUT_S) for transport in ("gloo", "memory")),
        *((transport, "stopped_before", "c", 2 * TIMEOUT_S) for transport in ("gloo", "memory")),
        ("gloo", "refuses", "a", 0.0),
        ("gloo", "does_not_come", "a", 2 * TIMEOUT_S),
        ("memory", "joins_in_word", "b", 0.0),
        ("memory", "updates_in_word", "b", 0.0),
        ("memory", "answers_late", "b", 2 * TIMEOUT_S),
    ],
)
def test_who_breaks_the_group_is_found_in_time_and_the_others_get_all_over_another(
    outcomes: Outcomes, transport: str, case: str, blamed: str, within_s: float
) -> None:
    ended = outcomes(transport)[case]
    assert list(ended["blamed"]) == [blamed]
    assert ended["took_s"] < within_s + SLACK_S
    assert (ended["failed"], set(ended["came"].values())) == ([], {True})
    assert ended.get("version") is None, "what was not sent to it whole is no version"


def test_over_nccl_each_living_rank_aborts_its_own_communicator(outcomes: Outcomes) -> None:
    ended = outcomes("nccl")["aborted"]
    assert ended["blamed"] == ["b"]
    assert ended["aborted"] == [0, 1, 3], "the trainer, and the workers of a and c"
    assert ended["took_s"] < 2 * TIMEOUT_S + SLACK_S
    assert (ended["failed"], ended["came"]) == ([], {"a": True, "c": True})


def test_a_communicator_that_is_not_made_in_time_ends_the_run_by_name(outcomes: Outcomes) -> None:
    assert outcomes("nccl")["never_made"] == {"kind": "transfer_stuck", "retryable": False}
