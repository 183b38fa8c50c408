"""What the training runs of several files begin with."""

from pathlib import Path

import pytest
from tests.e2e.learning import runs


@pytest.fixture(scope="session")
def small_task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four rows, four calls, and a model that calls at random."""
    folder = tmp_path_factory.mktemp("small_task")
    runs.call("scripts/train_demo.py", "make", folder, "--small", "--steps", "200", "--seed", "0")
    return folder
