"""System calls: those that sandboxes would share, or that go past their walls, are not there; the first process of a
sandbox can't be traced, read or written to from inside.

What is tried is harmless where a runtime lets it through: descriptors and addresses that are none.
"""

import os

from paddock.conformance.behaviours import Behaviour, NotApplicable, expect
from paddock.conformance.sandboxes.fixture import (
    SandboxFixture,
    SandboxTarget,
    create_sandbox,
    provider_of,
    sandbox_fixture,
)
from paddock.sandbox.keeper import seccomp

REFUSED = (
    "keyctl add_key request_key io_uring_setup io_uring_enter bpf userfaultfd perf_event_open pidfd_getfd "
    "memfd_secret name_to_handle_at fsopen open_tree clone3"
)
FAMILIES = {"AF_ALG": 38, "AF_VSOCK": 40, "AF_RDS": 21, "AF_TIPC": 30, "AF_BLUETOOTH": 31}
CALL = """
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
for number in sys.argv[1:]:
    result = libc.syscall(int(number), -1, 0, 0, 0, 0, 0)
    print(number, result if result >= 0 else errno.errorcode[ctypes.get_errno()])
"""
OPEN_SOCKETS = """
import errno, socket, sys
for family in sys.argv[1:]:
    try:
        socket.socket(int(family), socket.SOCK_DGRAM).close()
        print(family, "opened")
    except OSError as error:
        print(family, errno.errorcode[error.errno])
"""
LEAVE_KEY = """
import ctypes, sys
libc = ctypes.CDLL(None)
add_key, keyctl, secret = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode()
key = libc.syscall(add_key, b"user", b"paddock:" + secret, secret, len(secret), -4)
libc.syscall(keyctl, 5, key, 0x3F3F3F3F)
libc.syscall(keyctl, 15, key, 60)
print(key)
"""
"""In the keyring of the user for a minute, readable by all."""
READ_KEY = """
import ctypes, sys
libc = ctypes.CDLL(None)
found = {int(line.split()[0], 16) for line in open("/proc/keys")} | {int(sys.argv[2])}
for key in found:
    data = ctypes.create_string_buffer(4096)
    print(key, libc.syscall(int(sys.argv[1]), 11, key, data, 4096), data.value)
"""
END_FIRST = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def said(name, result):
    print(name, "allowed" if result >= 0 else errno.errorcode[ctypes.get_errno()], flush=True)
def opened(name, path, mode):
    try:
        open(path, mode, buffering=0).close()
        print(name, "allowed", flush=True)
    except OSError as error:
        print(name, errno.errorcode[error.errno], flush=True)
opened("write", "/proc/1/mem", "r+b")
opened("read", "/proc/1/mem", "rb")
opened("environment", "/proc/1/environ", "rb")
opened("descriptor", "/proc/1/fd/0", "rb")
buffer = ctypes.create_string_buffer(16)
here, there = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 16), (ctypes.c_uint64 * 2)(0x400000, 16)
said("process_vm_readv", libc.process_vm_readv(1, here, 1, there, 1, 0))
said("seize", libc.ptrace(0x4206, 1, 0, 0))
"""


async def a_filter_is_on(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        shell = await sandbox.shell()
        script = "grep '^Seccomp:' /proc/self/status"
        for who, text in (("a command", await sandbox.out(script)), ("a shell", await shell.out(script))):
            expect(text.split() == ["Seccomp:", "2"], f"{who} is under no filter of system calls: {text!r}")


async def shared_calls_are_not_there(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        numbers = _numbers()
        names = {str(numbers[name]): name for name in REFUSED.split()}
        for number, text in (await _lines(sandbox, CALL, *names)).items():
            expect(text == "ENOSYS", f"{names[number]} answers {text}, not ENOSYS")


async def sockets_stay_inside(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        for number, text in (await _lines(sandbox, OPEN_SOCKETS, *map(str, FAMILIES.values()))).items():
            name = next(name for name, value in FAMILIES.items() if str(value) == number)
            expect(text == "EAFNOSUPPORT", f"a socket of {name} answers {text}, not EAFNOSUPPORT")
        useful = await _lines(sandbox, OPEN_SOCKETS, "1", "2", "16")
        expect(set(useful.values()) == {"opened"}, f"unix, IPv4 or netlink sockets: {useful}")


async def keys_are_not_passed_on(target: SandboxTarget) -> None:
    numbers = _numbers()
    add_key, keyctl = str(numbers["add_key"]), str(numbers["keyctl"])
    async with provider_of(target) as provider:
        sandbox, other = await create_sandbox(provider, target), await create_sandbox(provider, target)
        left = bytes((await sandbox.python(LEAVE_KEY, add_key, keyctl, f"secret {sandbox.mark}")).stdout).decode()
        text = bytes((await other.python(READ_KEY, keyctl, left.strip())).stdout).decode()
        expect(f"secret {sandbox.mark}" not in text, "a key that one sandbox left was read in another")


async def the_first_process_is_out_of_reach(target: SandboxTarget) -> None:
    async with sandbox_fixture(target) as sandbox:
        answers = await _lines(sandbox, END_FIRST)
        refused = {"EPERM", "EACCES"}
        expect(len(answers) == 6, f"not all was tried: {answers}")
        reached = {name: answer for name, answer in answers.items() if answer not in refused}
        expect(not reached, f"pid 1 can be reached from inside: {reached}")
        expect(await sandbox.out("echo alive") == "alive", "the sandbox did not outlive it")


def _numbers() -> dict[str, int]:
    machine = os.uname().machine
    if machine not in seccomp.MACHINES:
        raise NotApplicable(f"the numbers of calls on {machine} are not known")
    return seccomp.MACHINES[machine].numbers


async def _lines(sandbox: SandboxFixture, program: str, *words: str) -> dict[str, str]:
    """What it says of each thing that it tries."""
    text = bytes((await sandbox.python(program, *words, timeout_s=20)).stdout).decode()
    return dict(line.split() for line in text.splitlines())


SUITE = [
    Behaviour("commands and shells are under a filter of system calls", a_filter_is_on),
    Behaviour("system calls that sandboxes would share are not there", shared_calls_are_not_there),
    Behaviour("sockets are of the families that stay inside", sockets_stay_inside),
    Behaviour("keys of the kernel pass nothing from one sandbox to another", keys_are_not_passed_on),
    Behaviour("the first process can't be traced, read or written to", the_first_process_is_out_of_reach),
]
