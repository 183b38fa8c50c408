"""Starting one command inside.

The child joins the sandbox's cgroups, leads a session (with a terminal of the sandbox's own, where asked), adopts the
orphans among its descendants, closes what is not the command's, gives up every capability, and becomes the command.
What goes wrong before that is reported through a pipe that exec closes. `ExecError`: the command itself is at fault, or
something inside has stopped the child by signals and goes on doing so. `ChildError`: the child failed otherwise, whose
limits and priority what runs inside may change. OSError: we did.
Whatever runs inside has the child's uid, and must find none of the keeper's descriptors in it: the keeper forbids
tracing, and so its children until they exec (`syscalls.forbid_tracing`). The filter of system calls is the keeper's too
(`seccomp`).
"""

import errno
import fcntl
import os
import resource
import select
import signal
import struct
import termios
import time
import tty
import warnings  # noqa: F401 - `os.execvpe` imports it, and inside there may be no library, or one of the sandbox's
from typing import Any, NamedTuple, NoReturn

from . import syscalls
from .launch import StartPlan

STOPPED_S = 1.0
"""Seconds for a stopped child to become its command after all: the keeper does nothing else meanwhile."""
_LOOK_S = 0.02
"""Seconds between looks at whether it is stopped."""
_BLAME = {
    errno.ENOENT,
    errno.EACCES,
    errno.ENOTDIR,
    errno.ENOEXEC,
    errno.E2BIG,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.EISDIR,
    errno.ECANCELED,
    errno.ETXTBSY,
    errno.ELIBBAD,
}


class ExecError(Exception):
    """The command can't be started through its own fault."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"{what}: {os.strerror(number)}")
        self.errno = number


class ChildError(OSError):
    """The child failed before it was its command, which may be caused by what runs inside."""


class SpawnedCommand(NamedTuple):
    pid: int
    """As the host sees it."""
    terminal: int | None
    """Master side, where the command has a terminal."""


def spawn(plan: StartPlan, message: dict[str, Any], fds: list[int]) -> SpawnedCommand:
    """`fds` are the child's descriptors from 0 on; where it has a terminal, that is 0 to 2, and `fds` follow."""
    try:
        terminal = _open_terminal(message["terminal"]) if message["terminal"] else None
    except OSError as error:
        raise ChildError(error.errno, f"a terminal: {error.strerror}") from error
    error_read, error_write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(plan, message, fds, terminal, error_write)
    os.close(error_write)
    if terminal:
        os.close(terminal[1])
    try:
        start_error = _start_error(pid, error_read, plan.spawn_timeout_s)
    finally:
        os.close(error_read)
    if not start_error:
        return SpawnedCommand(pid, terminal[0] if terminal else None)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if terminal:
        os.close(terminal[0])
    number, _, what = start_error.decode(errors="replace").partition(" ")
    if int(number) in _BLAME:
        raise ExecError(int(number), what)
    raise ChildError(int(number), f"{what}: {os.strerror(int(number))}")


def _start_error(pid: int, error_pipe: int, timeout_s: float) -> bytes:
    """Why a child could not become its command, as `errno what`; empty: it has become its command."""
    deadline = time.monotonic() + timeout_s
    received = b""
    stopped_until = None
    while (now := time.monotonic()) < deadline:
        if select.select([error_pipe], [], [], min(_LOOK_S, deadline - now))[0]:
            chunk = os.read(error_pipe, 65536)
            if not chunk:
                return received
            received += chunk
        elif _is_stopped(pid):
            stopped_until = stopped_until or now + STOPPED_S
            if now > stopped_until:
                return b"%d a signal stopped it again and again before it started" % errno.ECANCELED
            os.kill(pid, signal.SIGCONT)
    return b"%d start within %g s" % (errno.ETIMEDOUT, timeout_s)


def _is_stopped(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is not None
    except ChildProcessError:
        return False  # a zombie: it ended just now, and its end of the pipe is closed


def _open_terminal(size: list[int]) -> tuple[int, int]:
    """Master and slave; output is left as it is written, input is not echoed."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[0], size[1], 0, 0))
    modes = termios.tcgetattr(slave)
    modes[tty.OFLAG] &= ~termios.OPOST
    modes[tty.LFLAG] &= ~(termios.ECHO | termios.ECHONL)
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    os.set_inheritable(master, False)
    return master, slave


def _become(
    plan: StartPlan, message: dict[str, Any], fds: list[int], terminal: "tuple[int, int] | None", error_pipe: int
) -> NoReturn:
    what = "start"
    try:
        for fd in plan.cgroup_fds:
            os.write(fd, b"0")
        os.setsid()
        if terminal:
            fcntl.ioctl(terminal[1], termios.TIOCSCTTY, 0)
            fds = [terminal[1]] * 3 + fds
        # Above every number that is about to be given away, so that none is overwritten before it is copied.
        copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, len(fds) + 1) for fd in fds]
        error_pipe = fcntl.fcntl(error_pipe, fcntl.F_DUPFD_CLOEXEC, len(fds) + 1)
        for number, fd in enumerate(copies):
            os.dup2(fd, number, inheritable=True)
        error_pipe = os.dup2(error_pipe, len(fds), inheritable=False)
        syscalls.default_signals()
        syscalls.close_from(error_pipe + 1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for name, value in plan.process_limits.items():
            syscalls.limit(getattr(resource, name), value)
        os.umask(0o022)
        what = message["cwd"]
        os.chdir(what)
        syscalls.become_subreaper()
        syscalls.drop_privileges()
        what = message["argv"][0]
        os.execvpe(what, message["argv"], message["env"])
    except OSError as error:
        os.write(error_pipe, f"{error.errno or 0} {what}".encode(errors="surrogateescape"))
    except BaseException as error:  # noqa: BLE001 - reported by the only pipe there is
        os.write(error_pipe, f"{errno.EINVAL} {what}: {type(error).__name__}: {error}".encode(errors="replace"))
    os._exit(127)
