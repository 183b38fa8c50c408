"""Commands as real processes: started, read line by line, signalled, and gone with their family at the end.

Law     every wait has an end; leaving the context kills whatever is left of the process's family.
Errors  AssertionError with all that the command wrote.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

MARK = "PADDOCK_TEST_MARK"
"""A variable of a process that its descendants have too, by which they are found whoever their parent is."""
WAIT_S = 60.0
"""Longest wait for a line or an end on a busy machine."""


class CommandProcess:
    """A started command."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.pid = process.pid
        self.out: list[str] = []
        self.err: list[str] = []
        self._process = process
        self._new: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._readers = [
            threading.Thread(target=self._read, args=(stream, lines), daemon=True)
            for stream, lines in ((process.stdout, self.out), (process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    def line(self, part: str, *, timeout_s: float = WAIT_S) -> str:
        """The first line, of either stream, that holds `part`; waits for it."""
        end = time.monotonic() + timeout_s
        while True:
            found = next((line for line in [*self.out, *self.err] if part in line), None)
            if found is not None:
                return found
            left = end - time.monotonic()
            alive = any(reader.is_alive() for reader in self._readers)
            if left <= 0 or not (alive or not self._new.empty()):
                raise AssertionError(f"no line with {part!r}; {self.output()}")
            with suppress(queue.Empty):
                self._new.get(timeout=min(left, 0.1))

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def code(self, *, timeout_s: float = WAIT_S) -> int:
        """The exit code; waits for the end."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"still running after {timeout_s} s; {self.output()}") from error
        for reader in self._readers:
            reader.join(1.0)
        return code

    def family(self) -> list[psutil.Process]:
        """Its living descendants."""
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.pid).children(recursive=True)
        return []

    def output(self) -> str:
        return "it wrote:\n" + "\n".join([*self.out, *self.err])

    def _read(self, stream: Iterator[str], lines: list[str]) -> None:
        for line in stream:
            lines.append(line.rstrip("\n"))
            self._new.put(None)


@contextmanager
def running(
    module: str,
    *arguments: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    python: str = sys.executable,
) -> Iterator[CommandProcess]:
    """`python -m module arguments`, in a session of its own, with `env` over this process's environment."""
    process = subprocess.Popen(
        [python, "-m", module, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        start_new_session=True,
    )
    command = CommandProcess(process)
    try:
        yield command
    finally:
        family = command.family()
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        for reader in command._readers:
            reader.join(5.0)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def gone(processes: Sequence[psutil.Process], *, within_s: float) -> bool:
    """Whether all have ended in time; a zombie has ended."""
    end = time.monotonic() + within_s
    while any(_lives(process) for process in processes):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def marked_family(mark: str) -> list[psutil.Process]:
    """The living processes with this value of `MARK`, and all below them."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                found |= {one.pid: one for one in (process, *process.children(recursive=True))}
    return [process for process in found.values() if _lives(process)]


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
