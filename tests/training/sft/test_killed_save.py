"""A run that is killed while its policy's state is written in the background goes on from the checkpoint before."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
RUN_S = 300.0
pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(3 * RUN_S)]


def start(python: str, folder: Path, mode: str) -> "subprocess.Popen[str]":
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    argv = [python, "-m", "tests.training.sft.killed_save", str(folder), mode]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env)


def finish(process: "subprocess.Popen[str]") -> list[Any]:
    out, _ = process.communicate(timeout=RUN_S)
    assert process.returncode == 0
    return [json.loads(line) for line in out.splitlines()]


def kill_in_the_save(process: "subprocess.Popen[str]") -> list[Any]:
    """The steps that were done; the last while a checkpoint was written."""
    assert process.stdout is not None
    steps, stuck = [], False
    for line in process.stdout:
        if (found := json.loads(line)) == "stuck":
            stuck = True
        else:
            steps.append(found)
        if stuck and steps[-1][0] == 5:
            process.send_signal(signal.SIGKILL)
    process.stdout.close()
    assert process.wait(RUN_S) == -signal.SIGKILL
    return steps


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_a_kill_in_a_save_in_the_background_leaves_the_checkpoint_before(vllm_python: str, tmp_path: Path) -> None:
    *whole, _ = finish(start(vllm_python, tmp_path, "whole"))
    weights = (tmp_path / "export" / "model.safetensors").read_bytes()
    for made in ("checkpoints", "export"):
        shutil.rmtree(tmp_path / made)
    killed = kill_in_the_save(start(vllm_python, tmp_path, "stuck"))
    assert killed == whole[:5], "the step after it ran, and its state is that of a run that waits"
    assert names(tmp_path) == [".step_4.new", "step_2"]
    *resumed, ended = finish(start(vllm_python, tmp_path, "resumed"))
    assert resumed == whole[2:]
    assert ended == {"checkpoint": str(tmp_path / "checkpoints" / "step_8"), "newest": 8}, "the end waits for the last"
    assert names(tmp_path) == ["step_2", "step_4", "step_5", "step_6", "step_8"]
    assert (tmp_path / "export" / "model.safetensors").read_bytes() == weights
