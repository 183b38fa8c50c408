"""A worker reads what the trainer shares and nothing else, and nothing is left of either that was killed."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent / "shared_memory_faults.py"
NONE = "the trainer's notice of shared memory is none"
UNREADABLE = "the trainer's memory can't be read"
REFUSALS = {
    "no JSON": f"{NONE}: Invalid JSON",
    "cut off": f"{NONE}: Invalid JSON: EOF",
    "another kind": f"{NONE}: Input tag 'pickle'",
    "a key too many": f"{NONE}: file.path Extra inputs are not permitted",
    "a path as name": f"{NONE}: file.name String should match",
    "a number as text": f"{NONE}: file.pid Input should be a valid integer",
    "a short handle": f"{NONE}: cuda.handle String should match",
    "another name": f"{UNREADABLE}: it is /memfd:paddock-weights-",
    "another file": f"{UNREADABLE}: it is /etc/hostname",
    "no such file": f"{UNREADABLE}: [Errno 2] No such file",
    "a GPU here is none of": f"{UNREADABLE}: it is on another GPU: here it is to go to the CPU",
    "short": f"{UNREADABLE}: it ends after 3145728 bytes of 6291456",
}
pytestmark = [pytest.mark.vllm, pytest.mark.timeout(150)]


@pytest.fixture(scope="module")
def found(vllm_python: str) -> dict[str, Any]:
    argv = [vllm_python, "-P", str(SCRIPT)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, env={**os.environ})
    assert done.returncode == 0, done.stderr
    cases: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return cases


def test_a_worker_copies_what_the_trainer_wrote_and_keeps_nothing_open(found: dict[str, Any]) -> None:
    assert found["read"] == {"same": True, "part": True, "during": 1, "after": 0}


@pytest.mark.parametrize("what", REFUSALS)
def test_a_forged_or_cut_off_notice_is_refused_with_its_fault(found: dict[str, Any], what: str) -> None:
    assert found["forged"][what].removeprefix("SharedMemoryError: ").startswith(REFUSALS[what])


def test_each_forged_notice_has_a_test(found: dict[str, Any]) -> None:
    assert set(found["forged"]) == set(REFUSALS)


def test_who_reads_other_bytes_than_the_trainers_shares_no_memory_with_it(found: dict[str, Any]) -> None:
    trial = found["trial"]
    assert (trial["own"], trial["other"]) == ("", "what it reads is not what the trainer wrote")
    assert trial["gone"].startswith(UNREADABLE)
    assert trial["none"].startswith(NONE)


def test_of_a_trainer_that_was_killed_nothing_is_left(found: dict[str, Any]) -> None:
    killed = found["killed_trainer"]
    assert killed["read"] > 0
    assert "No such file" in killed["gone"]
    assert (killed["left"], killed["open"]) == ([], 0)


def test_a_trainer_that_is_stopped_holds_up_nobody_who_reads(found: dict[str, Any]) -> None:
    assert found["stopped_trainer"] == {"ended": True}


def test_a_handle_of_cuda_goes_as_digits_and_what_it_opened_is_closed(found: dict[str, Any]) -> None:
    cuda = found["cuda"]
    assert (cuda["same"], cuda["left"]) == (True, [[], []])
    assert cuda["forged"] == "RuntimeError: cudaIpcOpenMemHandle: invalid argument"
    assert cuda["full"] == "RuntimeError: cudaMalloc: out of memory"
    assert cuda["twice"] == "RuntimeError: cudaFree: invalid argument"
    assert cuda["no runtime"] == "RuntimeError: torch has loaded no runtime of CUDA"


def test_memory_of_a_bucket_is_used_again_when_nothing_of_it_is_held(found: dict[str, Any]) -> None:
    reused = found["reused"]
    assert reused["whole"], "a tensor that a module waits with stays as it came"
    assert 0 not in reused["places"][1:]
    assert len(set(reused["places"])) == 3, "two in turn, beside the one that is held"
