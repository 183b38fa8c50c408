"""Claims about the SWE demo on a machine that kills: one SIGKILL of a run of tests makes no wrong reward."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import orjson
import psutil
import pytest

from paddock.config import find_file

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(300)]
RUNNER = "pytest -rA"


class Killer(threading.Thread):
    """Kills the n-th process below a parent whose command line has `RUNNER` in it."""

    def __init__(self, parent: int, number: int) -> None:
        super().__init__(daemon=True)
        self._parent = psutil.Process(parent)
        self._number = number
        self.killed = False

    def run(self) -> None:
        seen: set[int] = set()
        while not self.killed:
            for process in self._running():
                if process.pid not in seen:
                    seen.add(process.pid)
                    if len(seen) == self._number:
                        process.kill()
                        self.killed = True
                        return
            threading.Event().wait(0.003)

    def _running(self) -> list[psutil.Process]:
        found = []
        try:
            below = self._parent.children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        for process in below:
            try:
                line = " ".join(process.cmdline())
            except psutil.Error:
                continue
            if RUNNER in line:
                found.append(process)
        return found


@pytest.mark.parametrize("number", [2, pytest.param(3, marks=pytest.mark.long)])
def test_one_kill_of_a_graders_runner_costs_no_reward(tmp_path: Path, number: int) -> None:
    words = ("eval", str(find_file("configs/swe_demo.yaml")), "--oracle", "--agent", "codeact", "--slice", "1:2")
    more = ("--repeats", "2", "--concurrency", "1", "--out", str(tmp_path / "run"), "--quiet")
    with subprocess.Popen([sys.executable, "-m", "paddock", *words, *more], start_new_session=True) as program:
        try:
            killer = Killer(program.pid, number)
            killer.start()
            assert program.wait(200) == 0
        finally:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
    assert killer.killed
    lines = (tmp_path / "run" / "rollouts.jsonl").read_bytes().splitlines()
    assert [orjson.loads(line)["reward"] for line in lines] == [1.0, 1.0]
