"""Which of the host's processes belong to a sandbox: what its keeper says of them is checked with the kernel.

Law     a process that a keeper names is signalled or read only when it is in the sandbox's pid namespace, which it
        can't leave. It is held while it is looked at: its id can't come to mean another meanwhile.
User    one that is not root can't see the namespace of a process that may not be traced (its program can't be read, or
        it asked for that); such a one is the sandbox's where the keeper is its parent, who has no other children.
Errors  ForeignProcess: the keeper named a process that is none of its sandbox's.
"""

import os
import select
from pathlib import Path

from paddock.sandbox import processes
from paddock.sandbox.processes import Process
from paddock.sandbox.watchdog import proc

MOST_ANCESTORS = 64
"""Most steps from the first process inside up to the sandbox's outer one."""


class ForeignProcess(Exception):  # noqa: N818 - read as what it is
    """The process is none of the sandbox's."""


class Members:
    """Processes of one sandbox. `keeper`: its keeper's process id, as the keeper's parent reported it."""

    def __init__(self, keeper: int) -> None:
        self._keeper = keeper
        self._pid_ns = 0
        self._first: tuple[int, ...] = ()

    def begin(self, init: int, inside: int, pid_ns: int, container: int | None = None) -> None:
        """Record the sandbox that a keeper reports; ForeignProcess where its process ids can't be true. `init`: the
        process whose end is the sandbox's; `inside`: the first process inside (`keeper.pid1`); `pid_ns`: inode of the
        pid namespace of commands; `container`: the first process of the container that the keeper was to join."""
        if pid_ns == _namespace("self"):
            raise ForeignProcess("it says that commands are in our own pid namespace")
        if container is not None and init != container:
            raise ForeignProcess(f"it says that process {init} is its first, and not the container's, {container}")
        if container is None and _parent(init) != self._keeper:
            raise ForeignProcess(f"it says that process {init} is its first: no child of the keeper, {self._keeper}")
        if not _descends(inside, init):
            raise ForeignProcess(f"it says that process {inside} is the first inside: no descendant of {init}")
        namespace = _namespace(inside)
        if namespace not in (None, pid_ns):
            raise ForeignProcess(
                f"it says that process {inside} is the first inside, which is in another pid namespace"
            )
        self._pid_ns = pid_ns
        self._first = (init, inside)

    def are_doomed(self) -> bool:
        """A first process has ended, or is to be killed as soon as it runs again: with it all others are."""
        return any(proc.is_doomed(pid) for pid in self._first)

    def find(self, pid: int) -> Process | None:
        """The sandbox's process that has this id; None: it has ended. ForeignProcess where it is another's."""
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        except OSError as error:
            raise ForeignProcess(f"it says that it started {pid}, which is no process: {error.strerror}") from error
        try:
            state = processes.state(pid)
            inside = state is not None and self._is_inside(pid, state.parent)
            if state is None or _has_ended(pidfd):
                return None
        finally:
            os.close(pidfd)
        if not inside:
            raise ForeignProcess(f"it says that it started process {pid}, which is not in its pid namespace")
        return Process(pid, state.started)

    def _is_inside(self, pid: int, parent: int) -> bool:
        namespace = _namespace(pid)
        return parent == self._keeper if namespace is None else namespace == self._pid_ns


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _namespace(pid: int | str) -> int | None:
    """Inode of its pid namespace; None: it can't be read."""
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except OSError:
        return None


def _parent(pid: int) -> int:
    """0: there is no such process."""
    state = processes.state(pid)
    return state.parent if state else 0


def _descends(pid: int, ancestor: int) -> bool:
    """Whether a process is `ancestor` or descends from it."""
    for _ in range(MOST_ANCESTORS):
        if pid == ancestor:
            return True
        pid = _parent(pid)
        if pid <= 1:
            return False
    return False
