"""The sandbox's own clocks: uptime, and what a process measures from, count from its start and not from the machine's.

How     a time namespace (Linux 5.6), where the kernel has them; else the machine's uptime is seen. The time of day is
        the machine's: no namespace divides it.
Source  time_namespaces(7).
"""

import os
import time

from . import syscalls

NAMESPACE = syscalls.CLONE_NEWTIME if os.path.exists("/proc/self/ns/time") else 0
"""Flag of `unshare`; 0: this kernel has none."""
FILE = "timens_offsets"
"""In a process's folder of `/proc`: what is written there before the first child holds for all children."""
UPTIME_S = 1000
"""Of a sandbox that starts: more than 0, so that no process in it is older than its machine."""


def offsets() -> str:
    clocks = {"monotonic": time.CLOCK_MONOTONIC, "boottime": time.CLOCK_BOOTTIME}
    return "\n".join(f"{name} {UPTIME_S - int(time.clock_gettime(clock))} 0" for name, clock in clocks.items())
