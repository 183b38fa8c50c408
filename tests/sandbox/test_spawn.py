"""Claims about how a command starts: what its process has open before it is the command's own."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.sandbox
SPAWN = """
import os, threading
from types import SimpleNamespace
from paddock.sandbox.keeper import spawn

mine, seen, over = open("/proc/self/cmdline").read(), set(), threading.Event()

def look():
    while not over.is_set():
        for pid in open("/proc/self/task/%d/children" % os.getpid()).read().split():
            try:
                fds = " ".join(sorted(os.listdir(f"/proc/{pid}/fd")))
                if open(f"/proc/{pid}/cmdline").read() == mine:
                    seen.add(fds)
            except OSError:
                pass

kept = [os.pipe() for _ in range(10)]
looking = threading.Thread(target=look)
looking.start()
message = {
    "argv": ["true"], "env": {"PATH": "/-:" * 35_000 + "/usr/bin:/bin"}, "cwd": "/", "terminal": None,
}
null = os.open("/dev/null", os.O_RDWR)
plan = SimpleNamespace(cgroup_fds=[kept[0][1]], open_files=256, file_bytes=None, spawn_timeout_s=30)
for _ in range(30):
    started = spawn.spawn(plan, message, [null] * 3)
    os.waitpid(started.pid, 0)
    if "0 1 2 3" in seen:
        break
over.set()
looking.join()
print(*seen, sep=chr(10))
"""
"""What children had open before exec, whose program is looked for in very many folders: all of ours at first."""


def test_a_command_that_is_about_to_start_has_its_own_descriptors_and_a_pipe_for_complaints() -> None:
    done = subprocess.run([sys.executable, "-c", SPAWN], capture_output=True, text=True, check=False, timeout=60)
    assert "0 1 2 3" in done.stdout.splitlines(), done.stdout + done.stderr


HANGING = """
import os
from types import SimpleNamespace
from paddock.sandbox.keeper import spawn

read, full = os.pipe()
os.set_blocking(full, False)
try:
    while True:
        os.write(full, bytes(65536))
except BlockingIOError:
    os.set_blocking(full, True)
plan = SimpleNamespace(cgroup_fds=[full], open_files=256, file_bytes=None, spawn_timeout_s=0.2)
try:
    spawn.spawn(plan, {"argv": ["true"], "env": {}, "cwd": "/", "terminal": None}, [0, 1, 2])
except OSError as error:
    print(error)
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no child is left")
"""


def test_a_child_that_hangs_before_it_is_its_command_is_killed() -> None:
    done = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.splitlines() == [
        "[Errno 110] start within 0.2 s: Connection timed out",
        "no child is left",
    ], done.stderr
