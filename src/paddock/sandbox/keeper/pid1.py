"""The first process inside a sandbox: a program of five system calls, made here.

What    it makes itself untraceable, ignores SIGCHLD, writes `ready`, and reads its stdin to the end: a pipe that nobody
        writes to.
Why     a shell of the image in its place could be traced from inside: it would make calls past `seccomp`, or end the
        sandbox as if the machine had. A process that is not dumpable can be neither traced nor written to, nor can its
        descriptors be taken, without a capability; only a process itself can make itself so.
Lives   the kernel keeps signals from inside from a first process that has no handler for them. Orphans end without
        its help, so it uses no CPU time, for which a limit that anybody inside may set (`prlimit`) could end it.
Source  elf(5), syscall(2); numbers as in `seccomp`.
"""

import os
import signal
import struct
from typing import NamedTuple

PATH = "/.paddock-init"
"""Where it lies inside until it runs."""
READY = b"ready\n"

_BASE = 0x400000
_HEADERS = 64 + 56
"""Bytes of the ELF header and of the one program header."""
_IGNORED = struct.pack("=4Q", 1, 0, 0, 0)
"""struct sigaction with SIG_IGN."""
_IGNORED_AT = _BASE + _HEADERS
_READY_AT = _IGNORED_AT + len(_IGNORED)
_DATA = _IGNORED + READY.ljust(8, b"\0")
_PR_SET_DUMPABLE = 4
# Nothing is ever read, so the place for it need not be writable.
_CALLS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("prctl", (_PR_SET_DUMPABLE, 0)),
    ("rt_sigaction", (signal.SIGCHLD, _IGNORED_AT, 0, 8)),
    ("write", (1, _READY_AT, len(READY))),
    ("read", (0, _READY_AT, 1)),
    ("exit_group", (0,)),
)


class ElfMachine(NamedTuple):
    """A kind of processor."""

    elf: int
    """EM_* of elf.h."""
    numbers: dict[str, int]


MACHINES = {
    "x86_64": ElfMachine(62, {"prctl": 157, "rt_sigaction": 13, "write": 1, "read": 0, "exit_group": 231}),
    "aarch64": ElfMachine(183, {"prctl": 167, "rt_sigaction": 134, "write": 64, "read": 63, "exit_group": 94}),
}
"""By the name that `uname` gives."""


def write(path: str) -> None:
    """Make it, for this machine; OSError where there is a file."""
    machine = os.uname().machine
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
    try:
        os.write(fd, program(machine))
        os.fchmod(fd, 0o555)
    finally:
        os.close(fd)


def program(machine: str) -> bytes:
    """An ELF file: headers, data and code in one segment, which is loaded readable and executable."""
    elf, numbers = MACHINES[machine]
    encode = _x86_64 if machine == "x86_64" else _aarch64
    code = b"".join(encode(numbers[name], arguments) for name, arguments in _CALLS)
    entry = _BASE + _HEADERS + len(_DATA)
    size = _HEADERS + len(_DATA) + len(code)
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = struct.pack("<16sHHIQQQIHHHHHH", identity, 2, elf, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x10000)
    return header + segment + _DATA + code


def _x86_64(number: int, arguments: tuple[int, ...]) -> bytes:
    """`mov` of 32 bits into rax, rdi, rsi, rdx, r10, then `syscall`."""
    moves = (b"\xb8", b"\xbf", b"\xbe", b"\xba", b"\x41\xba")
    values = zip(moves, (number, *arguments), strict=False)
    return b"".join(move + struct.pack("<I", value) for move, value in values) + b"\x0f\x05"


def _aarch64(number: int, arguments: tuple[int, ...]) -> bytes:
    """`movz` and `movk` of 16 bits each into x8, x0, x1, x2, x3, then `svc 0`."""
    words = []
    for register, value in zip((8, 0, 1, 2, 3), (number, *arguments), strict=False):
        words += [0xD2800000 | (value & 0xFFFF) << 5 | register, 0xF2A00000 | value >> 16 << 5 | register]
    return struct.pack(f"<{len(words) + 1}I", *words, 0xD4000001)
