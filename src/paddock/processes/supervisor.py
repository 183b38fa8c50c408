"""`python -I -S supervisor.py [--stdin] GRACE_S SCRATCH COMMAND...`: runs a command, and leaves nothing of it behind.

Law     when its stdin ends, because whoever started it closed it or died in whatever way, the command's group is told
        to end (SIGTERM), and what is left after GRACE_S seconds is killed. When the command ends by itself, what it
        started is killed. Then the folder SCRATCH is deleted. Descendants that left the group are found too: orphans
        among them become children of this process. If this process is killed, the command is too; the group is left
        to whoever started it.
--stdin our stdin is the command's, which alone reads it; when nobody holds its other end, the command has GRACE_S
        seconds to end by itself before it is told to.
Exit    the command's code; 128 and the signal's number where one killed it; 127 when it could not start.
Imports nothing of the package: it is started by path, in a few milliseconds.
"""

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)


def main(grace_s: float, scratch: str, command: list[str], *, passes_stdin: bool) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)  # the group that is told to end is never that of whoever started it
    try:
        stdin = None if passes_stdin else subprocess.DEVNULL
        process = subprocess.Popen(command, stdin=stdin, preexec_fn=_in_child)  # noqa: PLW1509 - one thread
    except OSError as error:
        sys.stderr.write(f"can't start {command[0]}: {error.strerror}\n")
        return 127
    try:
        ended = _ended_within(process.pid, grace_s) if passes_stdin else _ended_by_itself(process.pid)
        if not ended:
            os.killpg(0, signal.SIGTERM)
            deadline = time.monotonic() + grace_s
            while _reap(process) and time.monotonic() < deadline:
                time.sleep(0.02)
        while _reap(process):
            _kill_children()
            time.sleep(0.01)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    code = process.returncode
    return code if code >= 0 else 128 - code


def _in_child() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _ended_by_itself(pid: int) -> bool:
    """Wait for its end, or for that of stdin."""
    ended = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(0, select.POLLIN | select.POLLHUP)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if ended in ready:
            return True
        if 0 in ready and not os.read(0, 4096):
            return False


def _ended_within(pid: int, grace_s: float) -> bool:
    """Wait for its end, or for that of whoever writes to stdin and `grace_s` more."""
    ended = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(0, 0)  # its hang-up alone: what can be read is the command's
    if ended not in {fd for fd, _ in poll.poll()}:
        poll.unregister(0)
        return bool(poll.poll(1000 * grace_s))
    return True


def _reap(process: "subprocess.Popen[bytes]") -> bool:
    """Whether any child is left, after those that have ended are gone."""
    process.poll()
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return True
            if pid == process.pid:
                process.returncode = os.waitstatus_to_exitcode(status)
    except ChildProcessError:
        return False


def _kill_children() -> None:
    """Their own children become ours, and are met by the next round."""
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    given = sys.argv[1:]
    passes = given[0] == "--stdin"
    grace, folder, *program = given[passes:]
    sys.exit(main(float(grace), folder, program, passes_stdin=passes))
