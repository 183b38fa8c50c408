"""Who belongs to which sandbox, in real pid namespaces."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from paddock.sandbox.watchdog import Census
from paddock.sandbox.watchdog.proc import command, pid_namespace

pytestmark = pytest.mark.sandbox
Until = Callable[[Callable[[], Any]], Any]


@pytest.fixture
def census() -> Iterator[Census]:
    one = Census()
    yield one
    one.close()


def _commands(census: Census, key: int) -> list[str]:
    return [command(pid) for pid in census.take()[key]]


def test_a_sandbox_is_its_processes_and_no_others(census: Census, make_space: Any) -> None:
    spaces = [make_space(), make_space()]
    keys = [census.add(space.pid) for space in spaces]
    members = census.take()
    assert [sorted(members[key]) for key in keys] == [sorted((space.pid, space.shell)) for space in spaces]
    assert os.getpid() not in {pid for pids in members.values() for pid in pids}


def test_a_daemon_that_forked_twice_counts(census: Census, space: Any, until: Until) -> None:
    key = census.add(space.pid)
    space.do("(setsid sleep 61 & ) & wait")
    until(lambda: "sleep 61" in _commands(census, key))


@pytest.mark.slow
def test_a_process_that_joined_from_outside_counts(census: Census, space: Any, until: Until) -> None:
    key = census.add(space.pid)
    how = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
    visitor = subprocess.Popen(["nsenter", "-t", str(space.pid), *how, "-p", "sleep", "62"])
    try:
        until(lambda: "sleep 62" in _commands(census, key))
    finally:
        visitor.kill()
        visitor.wait()


def test_a_namespace_below_the_sandboxs_counts(census: Census, space: Any, until: Until) -> None:
    key = census.add(space.pid)
    space.do("unshare -Urpf sleep 63 &")
    until(lambda: "sleep 63" in _commands(census, key))
    nested = next(pid for pid in census.take()[key] if command(pid) == "sleep 63")
    assert pid_namespace(nested) != pid_namespace(space.pid)


def test_a_process_seen_before_its_sandbox_was_watched_counts(census: Census, space: Any, until: Until) -> None:
    space.do("unshare -Urpf sleep 64 &")
    space.say("on")
    other = census.add(os.getpid())
    until(lambda: census.take()[other])
    census.remove(other)
    key = census.add(space.pid)
    until(lambda: "sleep 64" in _commands(census, key))


def test_belongs_asks_anew(census: Census, space: Any) -> None:
    key = census.add(space.pid)
    census.take()
    assert census.belongs(space.shell, key)
    assert not census.belongs(os.getpid(), key)
    assert not census.belongs(2**22, key)


def test_where_namespaces_may_not_be_read_ancestry_decides(space: Any, until: Until) -> None:
    """A census by a user who may not look at those processes."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    space.do("sleep 65 &")
    space.say("on")
    code = (
        "import os, sys; os.setgroups([]); os.setresgid(60001, 60001, 60001); os.setresuid(60001, 60001, 60001); "
        "from paddock.sandbox.watchdog import Census; census = Census(); "
        f"key = census.add({space.pid}); print(key, len(census.take()[key]), census.belongs({space.shell}, key), "
        "census.belongs(os.getppid(), key))"
    )
    code = "import paddock.sandbox.watchdog.census; " + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(-space.pid), "3", "True", "False"]


def test_nothing_stays_open_after_a_sandbox_is_forgotten(
    census: Census, make_space: Any, until: Until, descriptors: Callable[[], list[str]]
) -> None:
    spaces = [make_space() for _ in range(3)]
    spaces[0].do("unshare -Urpf sleep 66 &")
    before = descriptors()
    keys = [census.add(space.pid) for space in spaces]
    until(lambda: "sleep 66" in _commands(census, keys[0]))
    assert len(descriptors()) > len(before)
    for key in keys:
        census.remove(key)
    assert descriptors() == before
    assert census.take() == {}


def test_without_privileges_a_user_counts_its_own_namespaces() -> None:
    """Both levels of them, with exact figures, as somebody who is not root."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; as one, every other test here says it")
    code = """
import os, subprocess, time
from pathlib import Path
from paddock.sandbox.watchdog import Census, proc
os.setgroups([]); os.setresgid(60001, 60001, 60001); os.setresuid(60001, 60001, 60001); os.chdir("/")
argv = ["unshare", "-Urpf", "--kill-child", "--mount-proc", "sh", "-c", "setsid sleep 72 & unshare -Urpf sleep 73; :"]
with subprocess.Popen(argv) as outer:
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
    while not (first := children.read_text()):
        time.sleep(0.01)
    census, due = Census(), time.monotonic() + 60
    key = census.add(int(first))
    while not {"sleep 72", "sleep 73"} <= set(map(proc.command, members := census.take()[key])):
        assert time.monotonic() < due
    print(key > 0, all(map(proc.proportional, members)), *sorted(map(proc.command, members))[1:], sep="|")
    print(all(census.belongs(pid, key) for pid in members), census.belongs(os.getpid(), key), sep="|")
    outer.kill()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True|True|sleep 72|sleep 73|unshare -Urpf sleep 73", "True|False"]


def test_a_process_that_can_not_be_read_at_first_counts_as_soon_as_it_can() -> None:
    """As a user's keeper starts commands: its child can't be read before exec, and has no ancestor inside."""
    code = """
import os, signal
if os.geteuid() == 0:
    os.setgroups([]); os.setresgid(60001, 60001, 60001); os.setresuid(60001, 60001, 60001)
from paddock.sandbox.keeper import syscalls
from paddock.sandbox.watchdog import Census, proc
syscalls.be_dumpable()
syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWPID)
if (first := os.fork()) == 0:
    signal.pause()
census = Census()
key = census.add(first)
syscalls.forbid_tracing()
(read, write), (started, exec_closes) = os.pipe(), os.pipe()
if (second := os.fork()) == 0:
    os.read(read, 1)
    os.execvp("sleep", ["sleep", "74"])
os.close(exec_closes)
print(proc.pid_namespace(second), second in census.take()[key])
os.write(write, b"x")
os.read(started, 1)
while proc.pid_namespace(second) is None:
    pass
print(second in census.take()[key])
for child in (second, first):
    os.kill(child, signal.SIGKILL)
"""
    code = "import paddock.sandbox.watchdog.census, paddock.sandbox.keeper.syscalls; " + code.lstrip()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["None", "False", "True"]
