"""Each loss and each advantage is that of the libraries that define it, over random numbers in float64.

The libraries run in environments of their own, which variables name; one that is missing is skipped by name.
NeMo-RL is in no package index: PADDOCK_NEMO_RL names a checkout, and PADDOCK_NEMO_RL_PATH a folder of what it needs
besides verl's environment.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
LAUNCH = ROOT / "tests/training/same_rollouts/launch.py"
INTERPRETERS = {"nemo_rl": "verl", "skyrl": "skyrl", "trl": "trl", "verl": "verl"}
"""Whose environment a library runs in."""
TOLERANCE = 1e-7
pytestmark = [pytest.mark.trainer, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=INTERPRETERS)
def library(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def found(library: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """How far the library is from ours, case by case."""
    name = INTERPRETERS[library]
    python = os.environ.get(f"PADDOCK_{name.upper()}_PYTHON")
    if not python:
        pytest.skip(
            f"PADDOCK_{name.upper()}_PYTHON names no interpreter: scripts/setup_trainer.sh {name} FOLDER makes one"
        )
    checkout = os.environ.get("PADDOCK_NEMO_RL", "")
    if library == "nemo_rl" and not checkout:
        pytest.skip("PADDOCK_NEMO_RL names no checkout")
    file = tmp_path_factory.mktemp(library) / "found.json"
    sources = [str(ROOT / "src"), str(ROOT)]
    if library == "nemo_rl":
        sources += [checkout, os.environ.get("PADDOCK_NEMO_RL_PATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sources)),
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    done = subprocess.run(
        [python, LAUNCH, f"tests.training.parity.in_{library}", file],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    cases: dict[str, Any] = json.loads(file.read_text())
    return cases


def test_losses_and_their_gradients_are_the_librarys(found: dict[str, Any]) -> None:
    far = {name: case for name, case in found["losses"].items() if max(case["value"], case["gradient"]) > TOLERANCE}
    assert far == {}
    for name, case in found["losses"].items():
        assert case["size"] > 1e-4, f"{name}: a loss without a gradient would be anything's"


def test_what_is_left_out_changes_the_loss(found: dict[str, Any]) -> None:
    """Masks and weights of these batches take effect: each case has a loss of its own."""
    whole = found["losses"]["DAPO"]["ours"]
    changed = [name for name in found["losses"] if name.startswith(("rejection", "token", "sequence", "KL"))]
    assert all(abs(found["losses"][name]["ours"] - whole) > 1e-3 for name in changed)


def test_advantages_are_the_librarys(library: str, found: dict[str, Any]) -> None:
    if library == "trl":
        pytest.skip("TRL computes advantages in the midst of its rollouts")
    assert {name: case for name, case in found["advantages"].items() if not case["value"] <= TOLERANCE} == {}
    assert all(case["size"] > 0.1 for case in found["advantages"].values())
