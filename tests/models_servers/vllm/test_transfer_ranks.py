"""Of two workers of a real vLLM one can not load new weights: the vLLM ends at once, and does not hang at a token."""

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.models_servers.vllm.conftest import SmallVllm

SCRIPT = Path(__file__).parent / "transfer_ranks.py"
SOON_S = 60.0
"""On a busy machine; vLLM itself gives a worker five minutes for a token."""
pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(500)]


def measured(small_vllm: "SmallVllm", rank: str) -> tuple[dict[str, Any], str]:
    """What the script found, and all that it wrote."""
    # Two workers on one node of memory: vLLM has to be told where their threads are.
    cores = sorted(os.sched_getaffinity(0))
    threads = {"VLLM_CPU_OMP_THREADS_BIND": f"{cores[0]}|{cores[-1]}", "VLLM_ALLOW_INSECURE_SERIALIZATION": "1"}
    argv = [small_vllm.python, "-P", str(SCRIPT), str(small_vllm.model), rank]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=450, env={**small_vllm.env, **threads})
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert found["first"] == [{}, "8 tokens"]
    return found, done.stdout


def test_an_update_that_breaks_off_leaves_no_answer_of_a_worker_unread(small_vllm: "SmallVllm") -> None:
    """vLLM takes the next answer of a worker for that of its next call, whichever it is of."""
    found, written = measured(small_vllm, "broken")
    assert found["ranks"] == [0, 1]
    assert found["half"] == "8 tokens"
    assert found["again"] == [{}, "8 tokens"]
    assert written.count("an update of weights is undone") == 2


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_vllm_ends_where_one_worker_alone_can_not_load_a_tensor(small_vllm: "SmallVllm", rank: str) -> None:
    found, written = measured(small_vllm, rank)
    assert list(found["failed"]) == ["vllm"]
    assert found["later"] == "EngineDeadError"
    assert found["took_s"] < SOON_S
    assert "no room for model.layers.1.post_attention_layernorm.weight" in written, "vLLM's log"
