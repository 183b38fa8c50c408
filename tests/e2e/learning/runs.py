"""Training runs as tests make them: commands under the interpreter of an environment with vLLM, and what they wrote."""

import json
import math
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
RUN_S = 3000.0
"""The limit of one run; a loaded machine takes many times as long as an idle one."""
SMALL = (
    "configs/train_demo.yaml",
    "~data.validation",
    "grpo.val_at_start=false",
    "grpo.val_at_end=false",
    "grpo.num_prompts_per_step=4",
    "policy.optimizer.kwargs.lr=7.0e-4",
    "checkpointing.save_period=1000",
)
"""The demonstration's loop on four rows, without validation."""
ROOMS = ("tests/e2e/learning/rooms.yaml",)
"""The same on a task of three turns."""
ENDS = 10
"""Steps at either end that are compared."""


def vllm_python() -> str:
    """Its interpreter; the test is skipped where there is none."""
    python = os.environ.get("PADDOCK_VLLM_PYTHON")
    if not python:
        pytest.skip("PADDOCK_VLLM_PYTHON is not set: scripts/setup_vllm.sh")
    return python


def environment() -> dict[str, str]:
    """The environment of every command: plugins of the tests are found, nothing is looked up on the network."""
    return {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


def call(*arguments: str | Path) -> None:
    command = [vllm_python(), *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=RUN_S)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}\n{done.stderr[-6000:]}"


def data(folder: Path) -> list[str]:
    """Overrides: rows and model of a folder that was made."""
    return [f"policy.model_name={folder / 'model'}", f"data.train.data_path={folder / 'train.jsonl'}"]


def train(out: Path, *overrides: str, control: str = "none", resume: bool = False, record: Path | None = None) -> None:
    """`record`: where batches are written down."""
    flags = ["--out", str(out), "--control", control, *(["--resume"] if resume else [])]
    flags += ["--record", str(record)] if record else []
    call("-m", "tests.e2e.learning.driver", *overrides, *flags)


def lines(out: Path) -> list[dict[str, Any]]:
    """The metrics lines of the steps that were done."""
    metrics_lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line for line in metrics_lines if line["trained"]]


def rewards(out: Path) -> list[float]:
    """The mean reward of each step."""
    return [line["metrics"]["train/total_reward/mean"] for line in lines(out)]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def p_of_rise(before: Sequence[float], after: Sequence[float]) -> float:
    """One-sided Mann-Whitney test that values of `after` are larger: the normal approximation, corrected for ties."""
    values = sorted([*before, *after])
    ranks = {value: mean([nth for nth, one in enumerate(values, 1) if one == value]) for value in set(values)}
    n, m = len(before), len(after)
    u = sum(ranks[value] for value in after) - m * (m + 1) / 2
    ties = sum(count**3 - count for count in (values.count(value) for value in set(values)))
    variance = n * m / 12 * (n + m + 1 - ties / ((n + m) * (n + m - 1)))
    if variance == 0:
        return 0.5
    return 0.5 * math.erfc((u - n * m / 2 - 0.5) / math.sqrt(2 * variance))


def rise(out: Path) -> float:
    found = rewards(out)
    return p_of_rise(found[:ENDS], found[-ENDS:])
