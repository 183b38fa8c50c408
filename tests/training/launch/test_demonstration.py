"""The claim that a launch on SLURM trains the demonstration, and goes on with it after `scancel`: a real model, a real
vLLM, real jobs.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.training.launch.commands import CONFIG, ROOT, launch
from tests.training.launch.one_node import Cluster, await_that, missing, one_node

STEPS = 8
SAVE_PERIOD = 3
SHORT = (
    f"grpo.max_num_steps={STEPS}",
    "grpo.val_at_start=false",
    f"checkpointing.save_period={SAVE_PERIOD}",
    "checkpointing.keep_top_k=null",
)
WITHIN_S = 2400.0
"""For one job, on a loaded machine."""


def make(folder: Path, python: str) -> dict[str, str]:
    """Rows and a model: the variables of their launch."""
    words: list[str | Path] = [python, ROOT / "scripts" / "train_demo.py", "make", folder / "made", "--steps", "100"]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=WITHIN_S)
    return {
        "EXP_NAME": "demonstration",
        "CONFIG_PATH": str(CONFIG),
        "MODEL_PATH": "made/model",
        "TRAIN_PATH": "made/train.jsonl",
        "VAL_PATH": "made/held_out.jsonl",
        "PADDOCK_VLLM_PYTHON": python,
        "HF_HUB_OFFLINE": "1",
    }


@pytest.mark.long
@pytest.mark.vllm
@pytest.mark.timeout(3 * WITHIN_S)
def test_the_demonstration_is_trained_and_gone_on_with_after_scancel(tmp_path: Path, vllm_python: str) -> None:
    if lacking := missing():
        pytest.skip(lacking)
    variables = make(tmp_path, vllm_python)
    run = tmp_path / "runs" / "demonstration"
    with one_node(kill_wait_s=180) as slurm:
        environ = {**os.environ, **slurm.environ}
        first = submitted(tmp_path, variables, environ)
        kept = run / "checkpoints" / f"step_{SAVE_PERIOD}"
        await_that(lambda: kept.is_dir() or has_ended(slurm, first), f"a checkpoint\n{slurm.logs()}", WITHIN_S)
        assert kept.is_dir(), log(run, first)
        slurm.ask("scancel", first)
        await_that(lambda: has_ended(slurm, first), "the job ended", WITHIN_S)
        assert slurm.state(first) == "CANCELLED"
        assert "interrupted: go on with --resume" in log(run, first)
        assert not (run / "summary.json").exists(), "it was not at its end"

        second = submitted(tmp_path, variables, environ)
        await_that(lambda: has_ended(slurm, second), "the second job ended", WITHIN_S)
        assert slurm.state(second) == "COMPLETED", log(run, second)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["trained"]] == list(range(1, STEPS + 1)), "each step once"
    assert json.loads((run / "summary.json").read_text())["steps"] == STEPS


def submitted(folder: Path, variables: dict[str, str], environ: dict[str, str]) -> str:
    done = launch(folder, "--run", "slurm", *SHORT, variables=variables, environ=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[0].split()[1]


def has_ended(slurm: Cluster, job: str) -> bool:
    return slurm.state(job) not in ("PENDING", "RUNNING", "COMPLETING")


def log(run: Path, job: str) -> str:
    return (run / "launch" / f"{job}.log").read_text()[-3000:]
