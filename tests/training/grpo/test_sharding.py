"""Two processes that hold one policy (FSDP2 over gloo) learn what one learns alone."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from paddock.ports import free_port, free_ports

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SAME = 1e-5
MAKE = "import pathlib, sys, tests.training.grpo.tiny_policy as t; t.make_model(pathlib.Path(sys.argv[1]))"
COMPARE = """
import json, pathlib, sys, torch, tests.training.grpo.tiny_policy as t
folders = [pathlib.Path(sys.argv[1], f"shards-{n}") for n in (1, 2)]
one, two = (t.stored_tensors(folder) for folder in folders)
def apart(kind):
    return max(float((one[name] - two[name]).abs().max()) for name in one if name.startswith(kind))
parts = sorted(file.stat().st_size for file in (folders[1] / "shards").glob("*.distcp"))
print(json.dumps({"names": sorted(one) == sorted(two), "weights": apart("weights."), "moments": apart("optimizer."),
    "random": len(torch.load(folders[1] / "policy.pt", weights_only=True)["random"]), "parts": parts}))
"""
pytestmark = [pytest.mark.vllm, pytest.mark.slow]


class ShardedRun(NamedTuple):
    one: Any
    """What one process told."""
    two: Any
    """What rank 0 of two told."""
    apart: Any
    """How far their states are from each other."""


@pytest.fixture(scope="module")
def results(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> ShardedRun:
    folder = tmp_path_factory.mktemp("sharding")
    _told(_started(vllm_python, "-c", MAKE, str(folder / "model")))
    script, port = str(HERE / "measure_shards.py"), str(free_port())
    both = [_started(vllm_python, script, str(folder), "2", port, str(rank)) for rank in (0, 1)]
    two, _ = [_told(one) for one in both]
    one = _told(_started(vllm_python, script, str(folder), "1", "0", "0"))
    return ShardedRun(one, two, _told(_started(vllm_python, "-c", COMPARE, str(folder))))


def _started(*command: str) -> subprocess.Popen[str]:
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def _told(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate(timeout=600)
    sys.stderr.write(err)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1]) if out else None


def test_loss_and_weights_after_five_steps_are_those_of_one_process(results: ShardedRun) -> None:
    assert results.two["loss"] == pytest.approx(results.one["loss"], abs=SAME)
    assert results.apart["names"]
    assert results.apart["weights"] < SAME
    assert results.apart["moments"] < SAME


def test_metrics_are_of_all_rows(results: ShardedRun) -> None:
    assert results.two["metrics"] == pytest.approx(results.one["metrics"], rel=1e-4, abs=SAME)


def test_a_step_after_a_load_is_the_one_without_it(results: ShardedRun) -> None:
    for told in (results.one, results.two):
        assert told["resumed"][0] == told["resumed"][1]
        assert told["grad_norm"][0] == told["grad_norm"][1]
    assert results.apart["random"] == 2, "random states of both"


def test_each_process_writes_its_part_of_a_state_which_any_number_reads(results: ShardedRun) -> None:
    small, large = results.apart["parts"]
    assert small > 0.9 * large
    assert results.one["other"] == pytest.approx(results.two["resumed"][0], abs=SAME)


def test_rank_0_sends_whole_weights(results: ShardedRun) -> None:
    for told in (results.one, results.two):
        assert told["sent"]
        assert told["told"] == [["policy-0"], 24]


def test_an_export_does_not_show_how_many_processes_made_it(results: ShardedRun) -> None:
    for told in (results.one, results.two):
        assert told["exported"]
        assert told["architectures"] == ["Qwen3ForCausalLM"]


@pytest.fixture(scope="module")
def offloads(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Of one process, and of two."""
    folder = tmp_path_factory.mktemp("offload")
    _told(_started(vllm_python, "-c", MAKE, str(folder / "model")))
    script, told = str(HERE / "measure_offload.py"), []
    for size in (1, 2):
        first, *others = [
            _started(vllm_python, script, str(folder), str(size), ports, str(rank))
            for ports in [",".join(map(str, free_ports(2)))]
            for rank in range(size)
        ]
        told.append(_told(first))
        for other in others:
            other.communicate(timeout=600)
    return told


@pytest.mark.long
def test_offloaded_weights_change_nothing_but_where_they_are(offloads: list[Any]) -> None:
    alone, both = offloads
    assert both["offloaded"]["metrics"] == both["plain"]["metrics"], "to the bit"
    assert both["apart"] == 0
    assert alone["apart"] < SAME
    for ours, theirs in zip(alone["offloaded"]["metrics"], alone["plain"]["metrics"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=SAME)


@pytest.mark.long
def test_a_state_of_offloaded_weights_is_gone_on_from(offloads: list[Any]) -> None:
    assert all(told["offloaded"]["resumed"] for told in offloads)
