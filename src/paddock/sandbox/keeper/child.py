"""A child process whose namespaces others join: the kernel makes a namespace only for a process that enters it."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator

from . import syscalls


@contextlib.contextmanager
def child_after(enter: "Callable[[], None]") -> "Iterator[int]":
    """Process id of a child that has called `enter`; it ends with the block. OSError where the call fails."""
    read, write = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            syscalls.die_with_parent(signal.SIGKILL)
            enter()
            os.write(write, b"x")
            signal.pause()
        except OSError as error:
            os.write(write, f"{error}".encode())
        finally:
            os._exit(1)
    os.close(write)
    try:
        answer = os.read(read, 4096)
        if answer != b"x":
            raise OSError(f"no namespace could be made: {answer.decode(errors='replace')}")
        yield child
    finally:
        os.close(read)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
