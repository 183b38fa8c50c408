"""TRL's asynchronous trainer learns from our rollouts over a real vLLM, to which it sends its weights without a GPU.

`scripts/train_demo_trl.sh` is the whole of it. Here are four rows, and the statistic of `tests/e2e/learning`.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.e2e.learning import runs

ROOT = Path(__file__).parents[3]
STEPS, BATCH, FEW_STEPS, KILLED_AFTER = 100, 64, 12, 2
pytestmark = [pytest.mark.trainer, pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(2 * runs.RUN_S)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four rows, four calls, and a model that calls at random."""
    folder = tmp_path_factory.mktemp("trl_task")
    runs.call("scripts/train_demo.py", "make", folder / "made", "--small", "--steps", "200")
    return folder / "made"


@contextmanager
def training(python: str, folder: Path, made: Path, steps: int) -> Iterator["subprocess.Popen[str]"]:
    """The command, killed where the test leaves it."""
    folder.mkdir()
    (folder / "made").symlink_to(made)
    command = [python, "-m", "scripts.train_demo_trl", str(folder), "--small", "--steps", str(steps)]
    env = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "TRL_EXPERIMENTAL_SILENCE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def log_of(folder: Path) -> str:
    return (folder / "log").read_text()


def await_steps(process: "subprocess.Popen[str]", folder: Path, steps: int) -> None:
    deadline = time.monotonic() + runs.RUN_S
    while log_of(folder).count("'grad_norm'") < steps:
        assert process.poll() is None, log_of(folder)[-4000:]
        assert time.monotonic() < deadline
        time.sleep(0.2)


def family_of(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def engine_of(family: list[psutil.Process]) -> psutil.Process:
    return next(one for one in family if "vllm.entrypoints.openai.api_server" in one.cmdline())


def steps_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_the_reward_rises_and_trainer_and_engine_have_the_same_weights(
    trl_python: str, made: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with training(trl_python, folder, made, STEPS) as process:
        assert process.wait(runs.RUN_S) == 0, log_of(folder)[-4000:]
    steps = steps_of(folder)
    rewards = [step["reward"] for step in steps]
    assert len(steps) == STEPS
    assert runs.p_of_rise(rewards[: runs.ENDS], rewards[-runs.ENDS :]) < 0.01, rewards
    assert abs(steps[0]["kl"]) < 1e-6
    # Of weights that did not come, the engine would be ever further from the trainer.
    assert runs.mean([step["kl"] for step in steps[-runs.ENDS :]]) < 0.1
    assert max(step["sample/staleness_max"] for step in steps) <= 2
    assert json.loads((folder / "summary.json").read_text())["dropped_total"] < 0.1 * STEPS * BATCH


def test_a_vllm_that_is_killed_is_started_again_and_gets_the_weights(
    trl_python: str, made: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with training(trl_python, folder, made, FEW_STEPS) as process:
        await_steps(process, folder, KILLED_AFTER)
        victim = engine_of(family_of(process))
        victim.kill()
        assert process.wait(runs.RUN_S) == 0, log_of(folder)[-4000:]
    steps = steps_of(folder)
    assert len(steps) == FEW_STEPS
    assert "is back, after restart 1" in log_of(folder)
    assert steps[-1]["kl"] < 0.1
    assert steps[-1]["sample/staleness_max"] <= 2


def test_a_trainer_that_is_killed_leaves_no_server_and_no_engine(trl_python: str, made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with training(trl_python, folder, made, STEPS) as process:
        await_steps(process, folder, 1)
        below = family_of(process)
        engine = engine_of(below)
        process.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(below, timeout=60)
    assert alive == []
    assert not engine.is_running()
