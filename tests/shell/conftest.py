"""Runs commands for real, in scratch trees that nothing can leave: the oracle for what two commands do.

Law     one bubblewrap process runs a whole batch: no network, a read-only root, own processes, a clean environment, and
        a scratch file system in memory that is rebuilt for every run. Standard output and error share one pipe.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

DRIVER = Path(__file__).with_name("driver.py")


Run = tuple[str, str, str]
"""The tree, the command, and the directory that its output's relative paths start from."""


class Ran(NamedTuple):
    output: str
    """With every path that exists spelled in full."""
    status: int
    files: dict[str, str]
    """Mode and content by path."""


Oracle = Callable[[Sequence[Run]], list[Ran]]


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        pytest.skip("bubblewrap (bwrap) is not installed")
    sandbox = [
        bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/", "/", "--proc", "/proc",
        "--dev", "/dev", "--tmpfs", "/mnt", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin",
        "--setenv", "LC_ALL", "C",
        "--setenv", "HOME", "/mnt/home", "--setenv", "TMPDIR", "/mnt", "--chdir", "/mnt",
    ]  # fmt: skip
    probe = subprocess.run([*sandbox, "/bin/true"], capture_output=True, text=True, timeout=30, check=False)
    if probe.returncode:
        pytest.skip(f"bubblewrap cannot make a sandbox here: {probe.stderr.strip()}")

    known: dict[Run, Ran] = {}

    def run(runs: Sequence[Run]) -> list[Ran]:
        fresh = [each for each in dict.fromkeys(runs) if each not in known]
        done = subprocess.run(
            [*sandbox, sys.executable, "-I", str(DRIVER)],
            input=json.dumps(fresh), capture_output=True, text=True, timeout=100, check=True,
        )  # fmt: skip
        known.update((each, Ran(*result)) for each, result in zip(fresh, json.loads(done.stdout), strict=True))
        return [known[each] for each in runs]

    return run
