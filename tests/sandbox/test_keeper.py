"""Claims about what a keeper says of a sandbox that may be ending: one whose pid namespace takes no new process."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from paddock.sandbox.keeper import messages, spawn
from paddock.sandbox.keeper.keeper import END_S

pytestmark = pytest.mark.sandbox
ALIVE = {"op": "alive", "id": 1}
MISSING = {"op": "open", "id": 3, "path": "/no/such/file", "write": False, "mode": None}
KEEPER = """
import os, signal, socket, sys
from paddock.sandbox.keeper import keeper, syscalls
from paddock.sandbox.keeper.launch import JoinedSandbox

link, life, state = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3]
syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWPID)
first = os.fork()
if first == 0:
    link.close()
    signal.pause()
if state == "falling":
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)
try:
    keeper._Keeper(link, None)._serve(JoinedSandbox(0, 0, 0, life, lambda: None))
except (EOFError, ConnectionError):
    pass
if state != "falling":
    os.kill(first, signal.SIGKILL)
"""


class RunningKeeper:
    """A keeper at work over namespaces alone. `falling`: their first process was killed, of which nothing has told."""

    def __init__(self, stack: ExitStack, *, falling: bool) -> None:
        self.link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        life, self._end = os.pipe()
        fds = [theirs.fileno(), life]
        words = [sys.executable, "-c", KEEPER, *map(str, fds), "falling" if falling else "well"]
        process = subprocess.Popen(words, pass_fds=fds)
        theirs.close()
        os.close(life)
        stack.callback(self.end)
        stack.callback(process.wait, 10)
        stack.callback(self.link.close)
        self.link.settimeout(30)

    def ask(self, message: dict[str, Any]) -> None:
        messages.send(self.link, message)

    def receive(self) -> dict[str, Any]:
        return messages.receive(self.link)[0]

    def end(self) -> None:
        end, self._end = self._end, -1
        if end >= 0:
            os.close(end)


@pytest.fixture
def run_keeper() -> Iterator[Callable[..., RunningKeeper]]:
    with ExitStack() as stack:
        yield lambda **state: RunningKeeper(stack, **state)


@pytest.mark.slow
def test_a_sandbox_that_lives_is_alive(run_keeper: Callable[..., RunningKeeper]) -> None:
    one = run_keeper(falling=False)
    one.ask(ALIVE)
    assert one.receive() == ALIVE


@pytest.mark.slow
def test_one_that_seems_to_end_is_not_alive_and_has_died_when_it_has(run_keeper: Callable[..., RunningKeeper]) -> None:
    one = run_keeper(falling=True)
    one.ask(ALIVE)
    one.ask(MISSING)
    assert one.receive()["op"] == "broken"
    one.link.settimeout(0.5)
    with pytest.raises(TimeoutError):
        one.receive()
    one.link.settimeout(30)
    one.end()
    assert one.receive()["op"] == "died"


@pytest.mark.slow
def test_one_that_does_not_end_although_it_seemed_to_is_alive_however_much_else_is_asked(
    run_keeper: Callable[..., RunningKeeper],
) -> None:
    one = run_keeper(falling=True)
    one.ask(ALIVE)
    one.ask({**ALIVE, "id": 2})
    told: list[int] = []
    started = time.monotonic()
    while len(told) < 2:
        assert time.monotonic() - started < 6 * END_S
        one.ask(MISSING)
        heard = one.receive()
        if heard["op"] == "alive":
            told.append(heard["id"])
        time.sleep(0.05)
    assert told == [1, 2]
    assert time.monotonic() - started >= END_S


def test_a_command_that_ended_just_as_its_start_was_looked_at_has_started() -> None:
    """To the kernel a child that has ended is none that can be stopped."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    closing = threading.Timer(3 * spawn._LOOK_S, os.close, [write])
    closing.start()
    try:
        assert spawn._start_error(pid, read, 20) == b""
    finally:
        closing.join()
        os.close(read)
        os.waitpid(pid, 0)
