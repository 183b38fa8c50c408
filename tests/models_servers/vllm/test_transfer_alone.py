"""The transfer itself: every tensor arrives as it was, and whatever goes wrong is an error soon, on both sides."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent / "transfer_alone.py"
FAULTS = {
    "refuses": "ConnectionError: refused",
    "update refused": "ConnectionError: refused",
    "unknown name": "KeyError: 'one'",
    "source": "ValueError: the source broke",
    "type": "ValueError: gloo: one float32 (3, 2) was declared, one float64 (3, 2) came",
    "short": "ValueError: gloo: scalar int64 () was declared, nothing came",
}
SOON_S = 60.0
"""On a busy machine; half of the transfer's own time limit."""
pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def outcomes(vllm_python: str) -> dict[str, Any]:
    argv = [vllm_python, "-P", str(SCRIPT), "", "again", *FAULTS]
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=400, env=env, check=False)
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


@pytest.mark.timeout(450)
@pytest.mark.parametrize(("case", "version"), [("", "7"), ("again", "8")])
def test_tensors_of_every_type_and_shape_arrive_as_they_were(outcomes: dict[str, Any], case: str, version: str) -> None:
    assert outcomes[case]["error"] == ""
    assert outcomes[case]["given"] == {
        "one": ["torch.float32", [3, 2], [[0, 3], [1, 4], [2, 5]]],
        "none": ["torch.float32", [0, 4], []],
        "half": ["torch.bfloat16", [2], [1.5, -2.0]],
        "scalar": ["torch.int64", [], 7],
        "version": [version],
    }


@pytest.mark.timeout(450)
@pytest.mark.parametrize("fault", FAULTS)
def test_what_goes_wrong_is_told_soon_and_labels_nothing(outcomes: dict[str, Any], fault: str) -> None:
    assert outcomes[fault]["error"] == FAULTS[fault]
    assert outcomes[fault]["took_s"] < SOON_S
    assert "version" not in outcomes[fault]["given"]


@pytest.mark.timeout(450)
def test_a_receiver_does_not_wait_for_a_source_that_broke(outcomes: dict[str, Any]) -> None:
    assert outcomes["source"]["receiver"] == "returned"
