"""System calls by number, for x86_64 and aarch64 as far as Python lacks them, and the word for one that must fail."""

import ctypes
import os
import sys

BREACH = "BREACH"
"""A line that begins so tells of what must not be possible."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_X86_64 = os.uname().machine == "x86_64"


def call(number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char]) -> int:
    """What a call gives; -1: it failed, and `ctypes.get_errno` says how."""
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result: int = _LIBC.syscall(ctypes.c_long(number), *words)
    return result


def number(x86_64: int, aarch64: int) -> int:
    return x86_64 if _X86_64 else aarch64


def breach(what: str) -> None:
    sys.stderr.write(f"{BREACH} {what}\n")
    sys.stderr.flush()
