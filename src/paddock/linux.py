"""What only Linux has: it is refused elsewhere before it is tried, with what to do in its place.

Elsewhere macOS, mostly: evaluations over endpoints, servers and what shows runs work there; sandboxes and checks of
          untrusted input, which the kernel's own means hold, do not.
"""

import os
import platform
import sys

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
