"""Reading `/proc` by hand: what a look at every process of the machine costs is mostly what the reader adds.

Units   bytes and seconds. A process that ended, or that we may not read, answers None or 0, never an error.
Cost    `statm` 10 us, `status` 30 us, `smaps_rollup` 150 us and more with the size of the process.
"""

import os
import shlex
import signal
from typing import NamedTuple

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
COMMAND_CHARS = 200
_KILL_BIT = 1 << (signal.SIGKILL - 1)
_EXITING = 0x4
"""Of a process's flags."""


class ResidentMemory(NamedTuple):
    """What `statm` says."""

    total: int
    """All resident pages: more than the process can be charged with."""
    private: int
    """Without mapped files and shared memory; pages shared with a parent since a fork count in both."""


class ProportionalMemory(NamedTuple):
    """Shares of pages: what several processes map is divided between them."""

    private: int
    """With what was swapped out."""
    shared: int
    """Shared memory and mapped files of a tmpfs."""


class ProcessTimes(NamedTuple):
    started: int
    """Clock ticks since boot."""
    cpu_s: float
    """Its own and that of children it has waited for."""
    parent: int


def read_file(path: str, most: int = 4096) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, most)
    except OSError:
        return None
    finally:
        os.close(fd)


def read_whole(path: str) -> bytes | None:
    """A file of any length."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a Path costs more than the call
            return file.readall()
    except OSError:
        return None


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name[0] in "123456789"]  # noqa: PTH208 - names are all


def resident(pid: int) -> ResidentMemory | None:
    text = read_file(f"/proc/{pid}/statm", 128)
    if not text:
        return None
    fields = text.split(None, 3)
    total, shared = int(fields[1]), int(fields[2])
    return ResidentMemory(total * PAGE_BYTES, (total - shared) * PAGE_BYTES)


def resident_and_swapped(pid: int) -> ResidentMemory | None:
    """As `resident`, for a machine with swap: slower, and pages that were swapped out count."""
    table = read_file(f"/proc/{pid}/status")
    if not table:
        return None
    swapped = _kib(table, b"VmSwap:")
    return ResidentMemory(_kib(table, b"VmRSS:") + swapped, _kib(table, b"RssAnon:") + swapped)


def charged_bytes(pid: int) -> int:
    """Anonymous, shared and swapped out memory of one process, what it shares with others counted whole."""
    table = read_file(f"/proc/{pid}/status") or b""
    return sum(_kib(table, name) for name in (b"RssAnon:", b"RssShmem:", b"VmSwap:"))


def proportional(pid: int) -> ProportionalMemory | None:
    """None too where the kernel has no `smaps_rollup`, or it may not be read."""
    table = read_file(f"/proc/{pid}/smaps_rollup")
    if not table:
        return None
    return ProportionalMemory(_kib(table, b"Pss_Anon:") + _kib(table, b"SwapPss:"), _kib(table, b"Pss_Shmem:"))


def times(pid: int) -> ProcessTimes | None:
    text = read_file(f"/proc/{pid}/stat", 1024)
    if not text:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return ProcessTimes(int(fields[19]), sum(map(int, fields[11:15])) / TICKS_PER_S, int(fields[1]))


def is_doomed(pid: int) -> bool:
    """SIGKILL is on its way to it, or has arrived: it will end, and may hold its memory a while longer."""
    table = read_file(f"/proc/{pid}/status") or b""
    pending = 0
    for name in (b"SigPnd:", b"ShdPnd:"):
        at = table.find(b"\n" + name)
        pending |= int(table[at + 1 + len(name) :].split(None, 1)[0], 16) if at >= 0 else 0
    if pending & _KILL_BIT:
        return True
    text = read_file(f"/proc/{pid}/stat", 1024)
    return not text or bool(int(text[text.rindex(b")") + 2 :].split()[6]) & _EXITING)


def command(pid: int) -> str:
    """Its command line, shortened; its name where it shows none."""
    words = (read_file(f"/proc/{pid}/cmdline", 4 * COMMAND_CHARS) or b"").rstrip(b"\0").split(b"\0")
    text = shlex.join(word.decode(errors="replace") for word in words if word)
    if not text:
        text = (read_file(f"/proc/{pid}/comm", 64) or b"").decode(errors="replace").strip()
    return text if len(text) <= COMMAND_CHARS else text[: COMMAND_CHARS - 3] + "..."


def pid_namespace(pid: int) -> int | None:
    """Inode of its pid namespace; None: it ended, or it is not ours to read."""
    try:
        link = os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115 - a Path costs more than the call
    except OSError:
        return None
    return int(link[5:-1])


def _kib(table: bytes, name: bytes) -> int:
    at = table.find(b"\n" + name)
    return int(table[at + 1 + len(name) :].split(None, 1)[0]) * 1024 if at >= 0 else 0
