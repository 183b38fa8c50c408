"""What only Linux has: it is refused elsewhere before it is tried, with what to do in its place.

Elsewhere macOS, mostly: evaluations over endpoints, servers and what shows runs work there; sandboxes and checks of
          untrusted input, which the kernel's own means hold, do not.
"""

import os
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from paddock.errors import ConfigError

INSTEAD = "run this on a Linux machine; its runs can be looked at from here (docs/start.md)"


def require_linux(what: str, instead: str) -> None:
    """ConfigError on another system. `what`: the subject of the message; `instead`: what works there."""
    if sys.platform != "linux":
        system = {"darwin": "macOS"}.get(sys.platform, platform.system())
        raise ConfigError(f"{what} Linux, and this is {system}: {instead}", kind="needs_linux")


def require_supervision() -> None:
    """ConfigError where processes of ours can't be watched, so that something of them might be left."""
    instead = "leave --workers and --isolate out, or run this on a Linux machine (docs/start.md)"
    require_linux("a server or worker in a process of its own is watched by means of", instead)


def usable_cores() -> int:
    """The cores that this process may use; all of the machine's where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _BatchBlocks(threading.local):
    """The open blocks of `batch_scheduling` in a thread."""

    n_open = 0


_batch_blocks = _BatchBlocks()


@contextmanager
def batch_scheduling() -> Iterator[None]:
    """Have this thread, and those that it starts, wake without taking a core from what runs (SCHED_BATCH, sched(7)).

    For a process that does little for each of many messages, beside those who send them and need the cores: that one
    preempts them at each message costs their caches more than the message costs. Without effect where the system
    refuses it or has no such policy, and where the thread has another one than that of all (SCHED_OTHER). Blocks of one
    thread may overlap: the policy before is back after the last.
    """
    if not hasattr(os, "SCHED_BATCH") or (_batch_blocks.n_open == 0 and os.sched_getscheduler(0) != os.SCHED_OTHER):
        yield
        return
    if _batch_blocks.n_open == 0:
        _set_policy(os.SCHED_BATCH)
    _batch_blocks.n_open += 1
    try:
        yield
    finally:
        _batch_blocks.n_open -= 1
        if _batch_blocks.n_open == 0:
            _set_policy(os.SCHED_OTHER)


def _set_policy(policy: int) -> None:
    with suppress(OSError):  # a container may forbid it
        os.sched_setscheduler(0, policy, os.sched_param(0))
