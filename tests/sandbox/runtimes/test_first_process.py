"""A payload can neither end its sandbox through the first process nor make calls by it."""

import os
import uuid
from collections.abc import Awaitable, Callable

import pytest

from paddock.sandbox import ExecRequest, ExecResult
from paddock.sandbox.keeper import pid1
from paddock.sandbox.local import LocalProvider

Sh = Callable[..., Awaitable[ExecResult]]
pytestmark = pytest.mark.sandbox
MAKE_IT_EXIT = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
registers = (ctypes.c_ulonglong * 27)()
def trace(request, data=None):
    if libc.ptrace(request, 1, None, data) < 0:
        print(request, errno.errorcode[ctypes.get_errno()], flush=True)
        raise SystemExit
trace(16)  # ATTACH
os.waitpid(1, 0x40000000)
trace(12, registers)  # GETREGS
registers[10] = registers[15] = 231  # exit_group
registers[14] = 0
registers[16] -= 2
trace(13, registers)  # SETREGS
trace(7)  # CONT
print("traced")
"""
TAKE_DESCRIPTOR = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(438, os.pidfd_open(1), 0, 0), errno.errorcode[ctypes.get_errno()])
"""
STARVE = """
import os, resource, signal
for limit in (resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_NOFILE, resource.RLIMIT_STACK):
    resource.prlimit(1, limit, (0, 0))
for number in signal.valid_signals():
    os.kill(1, number)
for _ in range(50):
    if os.fork() == 0:
        os.fork()
        os._exit(0)
    os.wait()
"""


async def answer(provider: LocalProvider, sandbox: str, program: str) -> bytes:
    request = ExecRequest(argv=["python3", "-c", program], timeout_s=20, merge_stderr=True)
    return bytes((await provider.exec(sandbox, request, request_id=uuid.uuid4().hex)).stdout).strip()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="registers of x86_64")
async def test_it_can_not_be_traced_into_ending(provider: LocalProvider, sandbox: str, sh: Sh) -> None:
    assert await answer(provider, sandbox, MAKE_IT_EXIT) == b"16 EPERM"
    assert bytes((await sh("echo alive")).stdout) == b"alive\n"


async def test_its_descriptors_and_memory_can_not_be_had(provider: LocalProvider, sandbox: str, sh: Sh) -> None:
    assert await answer(provider, sandbox, TAKE_DESCRIPTOR) == b"-1 ENOSYS"
    script = "for f in mem environ maps fd/0 exe root/etc; do (: < /proc/1/$f) 2>/dev/null && echo $f; done; true"
    assert bytes((await sh(script)).stdout) == b""


async def test_limits_signals_and_orphans_do_not_end_it(provider: LocalProvider, sandbox: str, sh: Sh) -> None:
    assert await answer(provider, sandbox, STARVE) == b""
    said = await sh("cat /proc/1/cmdline | tr '\\0' ' '; grep -ls '^State:.Z' /proc/[0-9]*/status; echo alive")
    assert bytes(said.stdout).decode().split() == [pid1.PATH, "alive"]


async def test_its_program_lies_nowhere_inside(sh: Sh) -> None:
    assert bytes((await sh(f"ls -a / | grep paddock; [ -e {pid1.PATH} ] && echo there; true")).stdout) == b""


def test_the_program_makes_the_calls_it_is_made_of() -> None:
    """The other machine's is decoded by hand: constants into registers, then the call."""
    code = pid1.program("aarch64")[64 + 56 + 40 :]
    words = [int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code), 4)]
    registers: dict[int, int] = {}
    calls = []
    for word in words:
        if word == 0xD4000001:
            calls.append((registers[8], *(registers[number] for number in range(4) if number in registers)))
            registers = {}
        else:
            shift = 16 if word >> 23 == 0xF2A00000 >> 23 and word & 0x20000000 else 0
            value = registers.get(word & 31, 0) if shift else 0
            registers[word & 31] = value | (word >> 5 & 0xFFFF) << shift
    assert calls == [(167, 4, 0), (134, 17, 0x400078, 0, 8), (64, 1, 0x400098, 6), (63, 0, 0x400098, 1), (94, 0)]
