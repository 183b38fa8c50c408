"""The memory watchdog, which also watches disk, CPU seconds and processes: one pass per host for all sandboxes.

It acts below the hard limit of a cgroup where there is one, and is the only limit where there is none. What it kills is
reported as a `MemoryKill`; a budget that is used up is reported once, and the provider kills the sandbox.
"""

from paddock.sandbox.watchdog.census import Census
from paddock.sandbox.watchdog.disk import DiskUse, disk_use
from paddock.sandbox.watchdog.disk_floor import FreeSpace
from paddock.sandbox.watchdog.host import HostMemory, host_memory
from paddock.sandbox.watchdog.period import next_period
from paddock.sandbox.watchdog.settings import WatchdogSettings
from paddock.sandbox.watchdog.watchdog import Watchdog
from paddock.sandbox.watchdog.watched_sandbox import ResourceUse, UsageReading, WatchedSandbox

__all__ = [
    "Census",
    "DiskUse",
    "FreeSpace",
    "HostMemory",
    "ResourceUse",
    "UsageReading",
    "Watchdog",
    "WatchdogSettings",
    "WatchedSandbox",
    "disk_use",
    "host_memory",
    "next_period",
]
