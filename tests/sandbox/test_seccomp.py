"""Claims about the filter of system calls: what its instructions answer, and what a process under it can do.

The instructions are read by an interpreter of the few that there are, as linux/filter.h defines them.
"""

import errno
import fcntl
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.sandbox.keeper import seccomp

EACH = pytest.mark.parametrize("name", sorted(seccomp.MACHINES))
ALLOWED = 0x7FFF0000
KILLED = 0x80000000
X32 = 0x40000000
I386 = 0x40000003
HEADERS = {
    "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), r"#define __NR_(\w+)\s+(\d+)"),
    "aarch64": (Path("/usr/include/asm-generic/unistd.h"), r"#define __NR(?:3264)?_(\w+)\s+(\d+)"),
}
HERE = os.uname().machine
needs_table = pytest.mark.skipif(HERE not in seccomp.MACHINES, reason=f"no filter for {HERE}")
TRY = """
import ctypes, os, sys
from paddock.sandbox.keeper import seccomp, syscalls
syscalls.drop_privileges()
seccomp.load()
"""


def ret(error: int) -> int:
    return 0x00050000 | error


def answer(program: bytes, number: int, first: int = 0, second: int = 0, *, arch: int) -> int:
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, arch, 0, first, second, 0, 0, 0, 0)
    instructions = list(struct.iter_unpack("=HBBI", program))
    at, loaded = 0, 0
    while True:
        code, if_so, if_not, value = instructions[at]
        at += 1
        if code == 0x20:
            (loaded,) = struct.unpack_from("=I", data, value)
        elif code == 0x06:
            return int(value)
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
            at += if_so if holds else if_not


def named(names: str, name: str) -> set[int]:
    numbers = seccomp.MACHINES[name].numbers
    return {numbers[one] for one in names.split() if one in numbers}


@EACH
def test_each_listed_call_ends_with_its_errno_and_every_other_is_allowed(name: str) -> None:
    machine = seccomp.MACHINES[name]
    program = seccomp.program(machine)
    denied = {number: one.errno for one in seccomp.DENIED for number in named(one.names, name)}
    assert len(denied) >= 48
    sockets = named(seccomp.SOCKET_CALLS, name)
    for number in range(seccomp.NEWEST + 1):
        if number not in sockets:  # the other calls that are looked into allow what 0 asks for
            expected = ret(denied[number]) if number in denied else ALLOWED
            assert answer(program, number, arch=machine.audit_arch) == expected, number


@EACH
def test_namespaces_are_refused_by_any_of_their_flags_and_processes_and_threads_are_not(name: str) -> None:
    machine = seccomp.MACHINES[name]
    program = seccomp.program(machine)
    for number in named(seccomp.NAMESPACE_CALLS, name):
        for bit in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
            assert answer(program, number, bit | 17, arch=machine.audit_arch) == ret(errno.EPERM), hex(bit)
        for flags in (17, 0x4111, 0x3D0F00, 0x400, 0x1200011):  # fork, vfork, a thread, files, posix_spawn
            assert answer(program, number, flags, arch=machine.audit_arch) == ALLOWED, hex(flags)


@EACH
def test_sockets_are_of_the_families_that_programs_use(name: str) -> None:
    machine = seccomp.MACHINES[name]
    program = seccomp.program(machine)
    for number in named(seccomp.SOCKET_CALLS, name):
        for family in range(64):
            expected = ALLOWED if family in seccomp.FAMILIES else ret(errno.EAFNOSUPPORT)
            assert answer(program, number, family, arch=machine.audit_arch) == expected, family
            # The kernel reads an int.
            assert answer(program, number, family | 1 << 32, arch=machine.audit_arch) == expected, family


@EACH
def test_no_file_is_leased_and_all_else_of_its_call_is_allowed(name: str) -> None:
    machine = seccomp.MACHINES[name]
    program, number = seccomp.program(machine), machine.numbers[seccomp.LEASE_CALL]
    for command in range(2000):
        expected = ret(errno.EINVAL) if command == fcntl.F_SETLEASE else ALLOWED
        # The kernel reads an int.
        for second in (command, command | 1 << 32):
            assert answer(program, number, 3, second, arch=machine.audit_arch) == expected, command


@EACH
def test_code_for_another_machine_is_killed_and_unknown_calls_are_not_there(name: str) -> None:
    machine = seccomp.MACHINES[name]
    program = seccomp.program(machine)
    for arch in {I386, *(other.audit_arch for other in seccomp.MACHINES.values())} - {machine.audit_arch}:
        assert {answer(program, number, arch=arch) for number in range(500)} == {KILLED}
    for number in (seccomp.NEWEST + 1, 1000, X32, X32 | 1, X32 | 56, -1):
        assert answer(program, number, arch=machine.audit_arch) == ret(errno.ENOSYS), number
    assert len(program) // 8 < 4096


@EACH
def test_the_numbers_are_those_of_the_kernel_s_headers(name: str) -> None:
    header, line = HEADERS[name]
    if not header.exists():
        pytest.skip(f"no {header}: apt-get install linux-libc-dev")
    told = {found[1]: int(found[2]) for found in re.finditer(line, header.read_text())}
    numbers = seccomp.MACHINES[name].numbers
    assert {call: number for call, number in numbers.items() if told.get(call, number) != number} == {}
    assert len(numbers.keys() & told.keys()) >= len(numbers) - 3


@EACH
def test_no_listed_name_is_without_a_number_but_where_the_machine_has_no_such_call(name: str) -> None:
    listed = " ".join([*(one.names for one in seccomp.DENIED), seccomp.NAMESPACE_CALLS, seccomp.SOCKET_CALLS])
    lacking = set(listed.split()) - seccomp.MACHINES[name].numbers.keys()
    assert lacking == ({"iopl", "ioperm"} if name == "aarch64" else set())


@needs_table
def test_a_process_is_under_it_for_good_with_all_that_it_starts() -> None:
    script = "os.execvp('sh', ['sh', '-c', 'grep Seccomp: /proc/self/status; unshare --ipc true 2>/dev/null; echo $?'])"
    said = subprocess.run([sys.executable, "-c", TRY + script], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["Seccomp:", "2", "1"]


@pytest.mark.slow
@needs_table
def test_a_thread_a_process_and_a_pool_start_under_it() -> None:
    script = """
import subprocess, threading
from concurrent.futures import ProcessPoolExecutor
threads = [threading.Thread(target=print, args=("thread",))]
threads[0].start(), threads[0].join()
subprocess.run(["echo", "process"], check=True)
with ProcessPoolExecutor(1) as pool:
    print("pool", pool.submit(abs, -1).result())
"""
    said = subprocess.run([sys.executable, "-c", TRY + script], capture_output=True, text=True, check=True).stdout
    assert sorted(said.split()) == ["1", "pool", "process", "thread"]


@pytest.mark.slow
@needs_table
def test_a_machine_without_a_table_is_told_which_have_one() -> None:
    script = """
import os
os.uname = lambda: os.uname_result(("Linux", "x", "6.1", "1", "riscv64"))
from paddock.sandbox.keeper import seccomp
seccomp.check()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "no filter of system calls for riscv64: sandboxes run on aarch64 and x86_64" in done.stderr
    here = "from paddock.sandbox.keeper import seccomp; seccomp.check()"
    assert subprocess.run([sys.executable, "-c", here], check=False).returncode == 0
