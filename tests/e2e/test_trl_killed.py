"""A trainer of TRL's that is killed while its rollouts are in sandboxes leaves no process behind."""

import os
import signal
import subprocess
import sys
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

ROOT = Path(__file__).parents[2]
VARIABLE = "PADDOCK_TRL_PYTHON"
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.slow,
    pytest.mark.trainer,
    pytest.mark.timeout(600),
    pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no interpreter"),
]


@pytest.mark.parametrize("trainer", ["plain", "async"])
def test_a_killed_trainer_leaves_no_sandbox_and_no_server(swe_case: Any, tmp_path: Path, trainer: str) -> None:
    given, asked = tmp_path / "given.jsonl", tmp_path / "asked"
    # What grades is not in TRL's environment: so there is a server in a process of its own, too.
    tree = deepcopy(swe_case.tree)
    tree["environment"]["resources_servers"]["swe"]["python"] = sys.executable
    given.write_bytes(b"\n".join(map(orjson.dumps, (tree, swe_case.row))))
    env = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "TRL_EXPERIMENTAL_SILENCE": "1",
    }
    command = [os.environ[VARIABLE], "-m", "tests.training.trl.drive_killed", str(tmp_path), trainer, str(given)]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log, start_new_session=True) as process,
    ):
        try:
            deadline = time.monotonic() + 400
            while not asked.exists() or len(asked.read_text().splitlines()) < 2:
                assert process.poll() is None, (tmp_path / "log").read_text()[-4000:]
                assert time.monotonic() < deadline
                time.sleep(0.2)
            below = psutil.Process(process.pid).children(recursive=True)
            commands = [" ".join(one.cmdline()) for one in below]
        finally:
            process.send_signal(signal.SIGKILL)
    assert any("bwrap" in command for command in commands), commands
    assert any("paddock.server" in command for command in commands), commands
    _, alive = psutil.wait_procs(below, timeout=20)
    assert alive == []
