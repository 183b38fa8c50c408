"""A trainer that is killed while rollouts run leaves no process behind."""

import subprocess
import time
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.trainer


def test_a_killed_worker_leaves_no_process(verl_python: str, verl_environment: dict[str, str], tmp_path: Path) -> None:
    script = Path(__file__).parent / "drive_killed.py"
    with subprocess.Popen([verl_python, script, tmp_path], env=verl_environment, stderr=subprocess.DEVNULL) as worker:
        deadline = time.monotonic() + 240
        while not (tmp_path / "running").exists():
            assert worker.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        started = psutil.Process(worker.pid).children(recursive=True)
        worker.kill()
    _, alive = psutil.wait_procs(started, timeout=20)
    assert alive == []
