"""Claims about the processes of episodes: whoever ends them, and however, nothing of them is left."""

import os
import signal
import subprocess
import time
from pathlib import Path

from tests.agents.verifiers.conftest import ENVIRONMENTS, PYTHON, ROOT, needs_verifiers, running_with, variables

pytestmark = needs_verifiers
MARK = b"31557602"


def drive(then: str) -> "subprocess.Popen[str]":
    assert PYTHON is not None
    return subprocess.Popen(
        [PYTHON, "-m", "tests.agents.verifiers.drive_host", str(ENVIRONMENTS), then],
        env=variables([]), cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for_none(folder: Path) -> None:
    deadline = time.monotonic() + 30
    while running_with(MARK) or folder.exists():
        assert time.monotonic() < deadline, (running_with(MARK), folder)
        time.sleep(0.1)


def test_an_agent_that_is_killed_leaves_nothing() -> None:
    with drive("wait") as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert process.stdout.readline() == "hanging\n"
        assert running_with(MARK)
        assert folder.is_dir()
        os.kill(process.pid, signal.SIGKILL)
        wait_for_none(folder)


def test_an_episode_that_is_given_up_leaves_nothing_and_the_next_one_runs() -> None:
    with drive("cancel") as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert process.stdout.readline() == "hanging\n"
        assert process.stdout.readline() == "ended TaskError\n"
        assert not running_with(MARK)
        assert not list((folder / "runtimes").rglob("*.py"))
        process.kill()
        wait_for_none(folder)
