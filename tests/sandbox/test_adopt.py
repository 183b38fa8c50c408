"""A container whose first process is not ours is not entered."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.sandbox.keeper import pid1

pytestmark = [pytest.mark.sandbox, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
ADOPT = """
import sys
from types import SimpleNamespace
from paddock.sandbox.keeper import adopt, launch, syscalls

syscalls.unshare(syscalls.CLONE_NEWNS)
syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)
adopt.FIRST_S = 0.1
runtime = launch.RuntimeStart(container=(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
try:
    adopt.adopt(SimpleNamespace(runtime=runtime, layers=[], cgroup_fds=[], programs=[]))
except OSError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_container_with_a_kernel_of_its_own_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "init"
    pid1.write(str(program))
    with subprocess.Popen(["sleep", "60"]) as kernel:
        words = [sys.executable, "-c", ADOPT, str(kernel.pid), str(program), str(tmp_path)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
        kernel.kill()
    assert "sleep, not /.paddock-init" in done.stdout, done.stderr
    assert "a kernel of its own" in done.stdout
