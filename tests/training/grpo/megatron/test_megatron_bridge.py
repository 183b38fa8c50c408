"""What `measure_megatron_bridge.py` found where Megatron-Bridge is: weights of Hugging Face that went into two
processes, laid out in each way, and out again are the same weights."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paddock.ports import free_port

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
VARIABLE = "PADDOCK_MEGATRON_BRIDGE_PYTHON"
LAYOUTS = ["TP1", "TP2", "PP2", "MoE", "MoE EP2", "MoE PP2", "MoE TP2 EP2 ETP1"]
SAME = 1e-5
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"{VARIABLE} names no interpreter: scripts/setup_megatron_bridge.sh makes one")
    folder = tmp_path_factory.mktemp("megatron-bridge")
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [python, str(HERE / "measure_megatron_bridge.py"), str(folder), str(free_port())]
    logs = [(folder / f"rank-{rank}.log").open("w+") for rank in (0, 1)]
    both = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, stderr=logs[rank], text=True, env=env)
        for rank in (0, 1)
    ]
    try:
        told = [one.communicate(timeout=900)[0] for one in both]
    finally:
        for one, log in zip(both, logs, strict=True):
            one.kill()
            one.wait()
            log.seek(0)
            sys.stderr.write(log.read())
            log.close()
    assert [one.returncode for one in both] == [0, 0]
    return json.loads(told[0].splitlines()[-1])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_log_probs_are_those_of_hugging_face(results: Any, layout: str) -> None:
    assert results[layout]["apart"]
    assert all(one < SAME for one in results[layout]["apart"])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_was_imported_is_exported_bit_for_bit(results: Any, layout: str) -> None:
    assert results[layout]["names"]
    assert results[layout]["equal"]
    assert results[layout]["exported"] == (45 if "MoE" in layout else 24)


@pytest.mark.parametrize("layout", ["MoE", "MoE EP2"])
def test_nothing_is_added_to_the_loss_for_balance(results: Any, layout: str) -> None:
    assert results[layout]["balancing"] == ["none", 0.0]


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("folder", "policy.model_name"),
        ("architecture", "GPT2LMHeadModel"),
        ("heads", "must be a multiple of tensor_model_parallel_size (3)"),
        ("unknown", "moe_router_dtypo"),
    ],
)
def test_what_it_can_not_read_is_an_error_that_names_it(results: Any, broken: str, told: str) -> None:
    assert told in results["refused"][broken]
