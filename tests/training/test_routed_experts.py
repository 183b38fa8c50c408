"""Claims about recorded experts at trainers that replay them: each has its own form, row by row what was recorded.

slime is in no package index: see tests/training/slime.
"""

import os
import subprocess
from pathlib import Path

import orjson
import pytest

ROOT = Path(__file__).parents[2]
PYTHONS = {
    "slime": "PADDOCK_VLLM_PYTHON",
    "skyrl": "PADDOCK_SKYRL_PYTHON",
    "verl": "PADDOCK_VERL_PYTHON",
    "verifiers": "PADDOCK_VERIFIERS_PYTHON",
}
FILLED = [[[0, 1], [0, 1]]]
"""Of a row that nothing is trained on."""


@pytest.mark.trainer
@pytest.mark.parametrize("trainer", PYTHONS)
def test_a_trainer_is_given_the_rows_that_were_recorded(trainer: str) -> None:
    python, slime = os.environ.get(PYTHONS[trainer]), os.environ.get("PADDOCK_SLIME")
    if not python or (trainer == "slime" and not slime):
        pytest.skip(f"{PYTHONS[trainer]}, or PADDOCK_SLIME, is not set")
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), slime or "", os.environ.get("PADDOCK_SLIME_PATH", "")])
    done = subprocess.run(
        [python, str(Path(__file__).parent / "drive_experts.py"), trainer],
        env={**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    found = orjson.loads(done.stdout.splitlines()[-1])
    whole = found["expected"]
    expected = {
        "slime": [whole, FILLED],
        "skyrl": [whole, FILLED, whole],
        # Zeros for the last token; cut where verl has no more room.
        "verl": [[*whole, [[0, 0], [0, 0]]], whole[:6]],
        # A row for the last token, too: verifiers repeats the one before it.
        "verifiers": [[*whole, whole[-1]]],
    }
    assert found["experts"] == expected[trainer]
    assert found["tokens"][0] == len(whole) + 1
    assert found["answered"]
    assert found["asked"] == 3
