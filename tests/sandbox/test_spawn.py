"""Claims about how a command starts: what its process has open, and its limits, before it is the command's own."""

import errno
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
plan = SimpleNamespace(cgroup_fds=[kept[0][1]], process_limits={"RLIMIT_NOFILE": 256}, spawn_timeout_s=30)
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


@pytest.mark.slow
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
plan = SimpleNamespace(cgroup_fds=[full], process_limits={"RLIMIT_NOFILE": 256}, spawn_timeout_s=0.2)
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


LIMITED = """
import os, sys
from types import SimpleNamespace
from paddock.sandbox import SandboxLimits
from paddock.sandbox.keeper import spawn

limits = SandboxLimits(open_files=100, disk_mib=2).of_each_process()
plan = SimpleNamespace(cgroup_fds=[], process_limits=limits, spawn_timeout_s=30)
show = "from resource import *; print(getrlimit(RLIMIT_NOFILE), getrlimit(RLIMIT_FSIZE), getrlimit(RLIMIT_CORE))"
started = spawn.spawn(plan, {"argv": [sys.executable, "-c", show], "env": {}, "cwd": "/", "terminal": None}, [0, 1, 2])
os.waitpid(started.pid, 0)
"""


def test_a_command_is_held_to_the_limits_of_each_process() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "(100, 100) (2097152, 2097152) (0, 0)\n", done.stderr


STOPPED = """
import os, signal, sys, threading, time
from types import SimpleNamespace
from paddock.sandbox.keeper import spawn

def children():
    return [int(pid) for pid in open("/proc/self/task/%d/children" % os.getpid()).read().split()]

def stop(times):
    while times:
        for pid in children():
            times -= 1
            try:
                os.kill(pid, signal.SIGSTOP)
            except OSError:
                pass

plan = SimpleNamespace(cgroup_fds=[], process_limits={"RLIMIT_NOFILE": 256}, spawn_timeout_s=30)
message = {"argv": ["sleep", "60"], "env": {"PATH": "/-:" * 30_000 + "/usr/bin:/bin"}, "cwd": "/", "terminal": None}
stopping = threading.Thread(target=stop, args=(int(sys.argv[1]),), daemon=True)
stopping.start()
began = time.monotonic()
try:
    started = spawn.spawn(plan, message, [0, 1, 2])
    stopping.join()
    os.kill(started.pid, signal.SIGKILL)
    os.waitpid(started.pid, 0)
    print("started")
except spawn.ExecError as refused:
    print(refused.errno, refused, time.monotonic() - began < 15)
print(children())
"""


@pytest.mark.slow
def test_a_child_that_is_stopped_again_and_again_is_refused_and_one_that_was_stopped_goes_on() -> None:
    for times, said in (("3", "started"), ("1000000000", f"{errno.ECANCELED} a signal stopped it again and again")):
        words = [sys.executable, "-c", STOPPED, times]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        first, left = done.stdout.splitlines()
        assert (first.startswith(said), left) == (True, "[]"), done.stdout + done.stderr
