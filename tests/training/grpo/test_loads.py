"""Of several processes that hold a model each reads its own part of the weights, and they are those of the files."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paddock.ports import free_port

SCRIPT = Path(__file__).with_name("measure_loads.py")
ROOT = SCRIPT.parents[3]
NAMES = ("tied", "untied", "experts")
HALF = 0.51
"""A half of an odd number of rows is a little more."""
pytestmark = [pytest.mark.vllm, pytest.mark.long]


@pytest.fixture(scope="module")
def folder(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loads")
    _output(_started(vllm_python, path))
    return path


@pytest.fixture(scope="module")
def loads(vllm_python: str, folder: Path) -> Any:
    return _loaded(vllm_python, folder, ",".join(NAMES), 2)


@pytest.mark.parametrize("name", NAMES)
def test_weights_and_buffers_are_those_of_a_whole_load_to_the_bit(loads: Any, name: str) -> None:
    told = loads[name]
    assert told["files"] > 1
    assert told["names"][0]
    assert told["names"][1:] > [20, 0]
    assert (told["weights"], told["buffers"], told["dtypes"]) == ([], [], ["torch.float32"])


@pytest.mark.parametrize("name", NAMES)
def test_each_process_has_its_part_alone_in_memory_of_its_own(loads: Any, name: str) -> None:
    assert max(loads[name]["parts"]) < HALF
    assert loads[name]["own"]


def test_a_weight_that_no_file_has_is_named(loads: Any) -> None:
    assert loads["lacking"].startswith("policy.model_name: ")
    why = "1 weights are not in its files, or have another shape: model.layers.1.mlp.up_proj.weight"
    assert loads["lacking"].endswith(why)


def test_the_peak_of_two_processes_is_nearly_half_that_of_one(vllm_python: str, folder: Path) -> None:
    (alone,) = _loaded(vllm_python, folder, "large", 1, "peak")["peaks"]
    both = _loaded(vllm_python, folder, "large", 2, "peak")["peaks"]
    assert alone > 700, "142 million weights in float32, and their file"
    assert max(both) < 0.7 * alone


def _loaded(python: str, folder: Path, names: str, n_processes: int, *more: str) -> Any:
    """The line of rank 0."""
    port = str(free_port())
    ranks = range(n_processes)
    started = [_started(python, folder, names, str(n_processes), port, str(rank), *more) for rank in ranks]
    outputs = [_output(one) for one in started]
    return json.loads(outputs[0].splitlines()[-1])


def _started(python: str, folder: Path, *args: str) -> subprocess.Popen[str]:
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = (python, str(SCRIPT), str(folder), *args)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def _output(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=600)
    sys.stderr.write(err)
    assert process.returncode == 0, err
    return out
