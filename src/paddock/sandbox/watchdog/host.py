"""The machine's own memory, apart from any sandbox's."""

from typing import NamedTuple

from paddock.sandbox.watchdog.proc import read_file


class HostMemory(NamedTuple):
    """Bytes."""

    total: int
    available: int
    """What can be had without swapping."""
    swap: int
    """Size of all swap; 0: none."""


def host_memory() -> HostMemory:
    table = read_file("/proc/meminfo") or b""
    found = {}
    for line in table.splitlines():
        name, _, rest = line.partition(b":")
        found[name] = int(rest.split()[0]) * 1024
    return HostMemory(found.get(b"MemTotal", 0), found.get(b"MemAvailable", 0), found.get(b"SwapTotal", 0))
