"""Processes of an environment with verl."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

VARIABLE = "PADDOCK_VERL_PYTHON"
ROOT = Path(__file__).parents[3]
Drive = Callable[..., None]


@pytest.fixture(scope="session")
def verl_python() -> str:
    """Interpreter of an environment with verl."""
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"{VARIABLE} names no interpreter: scripts/setup_trainer.sh verl FOLDER makes one")
    return python


@pytest.fixture(scope="session")
def verl_environment() -> dict[str, str]:
    """Variables of a process of verl's that has this checkout."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "VERL_USE_EXTERNAL_MODULES": "paddock.training.verl.advantages",
    }


@pytest.fixture(scope="session")
def drive(verl_python: str, verl_environment: dict[str, str]) -> Drive:
    """Run a script of this folder under verl's interpreter."""

    def run(script: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [verl_python, Path(__file__).parent / script, *arguments],
            env=verl_environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
        assert done.returncode == 0, done.stderr[-3000:]

    return run
