"""Processes of an environment with TRL."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "PADDOCK_TRL_PYTHON"
ROOT = Path(__file__).parents[3]
Drive = Callable[[str, Path], dict[str, Any]]


@pytest.fixture(scope="session")
def trl_python() -> str:
    """Interpreter of an environment with TRL."""
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"{VARIABLE} names no interpreter: scripts/setup_trainer.sh trl FOLDER makes one")
    return python


@pytest.fixture(scope="session")
def drive(trl_python: str) -> Drive:
    """Run a script of this folder under TRL's interpreter: what it found, scene by scene."""

    def run(script: str, folder: Path) -> dict[str, Any]:
        done = subprocess.run(
            [trl_python, Path(__file__).parent / script, folder],
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
                "HF_HUB_OFFLINE": "1",
                "CUDA_VISIBLE_DEVICES": "",
                "TRL_EXPERIMENTAL_SILENCE": "1",
                "OMP_NUM_THREADS": "1",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        found: dict[str, Any] = json.loads((folder / "found.json").read_text())
        return found

    return run
