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
    figures = {}
    for line in table.splitlines():
        name, _, rest = line.partition(b":")
        figures[name] = int(rest.split()[0]) * 1024
    return HostMemory(figures.get(b"MemTotal", 0), figures.get(b"MemAvailable", 0), figures.get(b"SwapTotal", 0))
