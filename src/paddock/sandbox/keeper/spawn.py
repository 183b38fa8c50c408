"""Starting one command inside.

The child joins the sandbox's cgroups, leads a session (with a terminal of the sandbox's own, where asked), adopts the
orphans among its descendants, closes what is not the command's, gives up every capability, and becomes the command.
What goes wrong before that is told through a pipe that exec closes. `Refused`: the command's own words are to blame, or
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
from .launch import Plan

STOPPED_S = 1.0
"""For a child that is stopped to become its command after all: the keeper does nothing else meanwhile."""
_LOOK_S = 0.02
"""Between looks whether it is."""
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


class Refused(Exception):  # noqa: N818 - read as what it is
    """The command can't be started, and that is its own fault."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"{what}: {os.strerror(number)}")
        self.errno = number


class ChildError(OSError):
    """What runs inside may have caused that."""


class Started(NamedTuple):
    pid: int
    """As the host sees it."""
    terminal: int | None
    """Master side, where the command has a terminal."""


def spawn(plan: Plan, message: dict[str, Any], fds: list[int]) -> Started:
    """`fds` are the child's descriptors from 0 on; where it has a terminal, that is 0 to 2, and `fds` follow."""
    try:
        terminal = _open_terminal(message["terminal"]) if message["terminal"] else None
    except OSError as error:
        raise ChildError(error.errno, f"a terminal: {error.strerror}") from error
    told_read, told_write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(plan, message, fds, terminal, told_write)
    os.close(told_write)
    if terminal:
        os.close(terminal[1])
    try:
        complaint = _complaint(pid, told_read, plan.spawn_timeout_s)
    finally:
        os.close(told_read)
    if not complaint:
        return Started(pid, terminal[0] if terminal else None)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if terminal:
        os.close(terminal[0])
    number, _, what = complaint.decode(errors="replace").partition(" ")
    if int(number) in _BLAME:
        raise Refused(int(number), what)
    raise ChildError(int(number), f"{what}: {os.strerror(int(number))}")


def _complaint(pid: int, told: int, timeout_s: float) -> bytes:
    """What a child says that can't become its command, or is said of it; empty: it has become it."""
    deadline = time.monotonic() + timeout_s
    heard = b""
    stopped_until = None
    while (now := time.monotonic()) < deadline:
        if select.select([told], [], [], min(_LOOK_S, deadline - now))[0]:
            chunk = os.read(told, 65536)
            if not chunk:
                return heard
            heard += chunk
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
    plan: Plan, message: dict[str, Any], fds: list[int], terminal: "tuple[int, int] | None", told: int
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
        lifted = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, len(fds) + 1) for fd in fds]
        told = fcntl.fcntl(told, fcntl.F_DUPFD_CLOEXEC, len(fds) + 1)
        for number, fd in enumerate(lifted):
            os.dup2(fd, number, inheritable=True)
        told = os.dup2(told, len(fds), inheritable=False)
        syscalls.default_signals()
        syscalls.close_from(told + 1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        syscalls.limit(resource.RLIMIT_NOFILE, plan.open_files)
        if plan.file_bytes is not None:
            syscalls.limit(resource.RLIMIT_FSIZE, plan.file_bytes)
        os.umask(0o022)
        what = message["cwd"]
        os.chdir(what)
        syscalls.become_subreaper()
        syscalls.drop_privileges()
        what = message["argv"][0]
        os.execvpe(what, message["argv"], message["env"])
    except OSError as error:
        os.write(told, f"{error.errno or 0} {what}".encode(errors="surrogateescape"))
    except BaseException as error:  # noqa: BLE001 - told on the only channel there is
        os.write(told, f"{errno.EINVAL} {what}: {type(error).__name__}: {error}".encode(errors="replace"))
    os._exit(127)
