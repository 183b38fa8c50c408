"""What only Linux has: it is refused elsewhere before it is tried, with what to do in its place.

Elsewhere macOS, mostly: evaluations over endpoints, servers and what shows runs work there; sandboxes and checks of
          untrusted input, which the kernel's own means hold, do not.
"""

import os
import platform
import sys
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


@contextmanager
def batch_scheduling() -> Iterator[None]:
    """Have this thread, and those that it starts, wake without taking a core from what runs (SCHED_BATCH, sched(7)).

    For a process that does little for each of many messages, beside those who send them and need the cores: that one
    preempts them at each message costs their caches more than the message costs. Without effect where the system
    refuses it or has no such policy.
    """
    if not hasattr(os, "SCHED_BATCH"):
        yield
        return
    before = os.sched_getscheduler(0)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setscheduler(0, before, os.sched_getparam(0))
