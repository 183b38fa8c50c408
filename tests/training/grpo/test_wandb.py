"""Claims about what W&B gets: run by the package itself, which trainers' environments have."""

import os
import subprocess
from pathlib import Path

import orjson
import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = Path(__file__).with_name("log_samples_to_wandb.py")
VARIABLE = "PADDOCK_VERL_PYTHON"


@pytest.mark.trainer
def test_wandb_gets_a_table_of_samples_for_each_step(tmp_path: Path) -> None:
    python = os.environ.get(VARIABLE)
    if python is None:
        pytest.skip(f"{VARIABLE} names no interpreter with wandb: scripts/setup_trainer.sh verl")
    env = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([python, SCRIPT, tmp_path], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tables = [orjson.loads(file.read_bytes()) for file in tmp_path.rglob("*.table.json")]
    assert sorted(table["data"][0][0] for table in tables) == ["1-0", "2-0"]
    for table in tables:
        assert table["columns"][:5] == ["rollout", "row", "agent", "outcome", "reward"]
        shown, failed = table["data"]
        assert (shown[4], shown[-1], failed[3:5]) == (1.0, "http://host/#/rollout", ["infra", None])
