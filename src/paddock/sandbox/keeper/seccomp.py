"""The filter of system calls that every command runs under: BPF, made here without a library.

Law     denied is what sandboxes would share because no namespace divides it (keys), what makes calls past a filter
        (io_uring), and what only administrators and exploits use. The rest is allowed; so are `ptrace` and
        `process_vm_writev`: debuggers need them, they reach the payload's own processes, and `/proc/PID/mem` does too.
Errno   ENOSYS where programs then try another way; else what the call says without a capability.
Newer   calls than `NEWEST` are not there until somebody has looked at them. Code for another machine (32-bit programs)
        is killed: its numbers mean other calls.
Source  linux/filter.h, linux/seccomp.h; numbers: asm/unistd_64.h and asm-generic/unistd.h.
"""

import errno
import os
import struct
from typing import NamedTuple

from . import syscalls


class DeniedCalls(NamedTuple):
    """Calls that end with `errno` whatever they ask for."""

    errno: int
    names: str
    """With blanks between them."""


DENIED = (
    # Keys belong to a user of the host, whatever namespaces it is in: two sandboxes could hand each other data.
    DeniedCalls(errno.ENOSYS, "keyctl add_key request_key"),
    # It opens files and sockets on the caller's behalf, past this filter.
    DeniedCalls(errno.ENOSYS, "io_uring_setup io_uring_enter io_uring_register"),
    # Parts of the kernel that exploits begin in; memory that is neither counted nor swapped as other memory is.
    DeniedCalls(errno.ENOSYS, "bpf userfaultfd perf_event_open lookup_dcookie memfd_secret"),
    # Descriptors and memory of other processes, without stopping them as a debugger does.
    DeniedCalls(errno.ENOSYS, "pidfd_getfd process_madvise"),
    # Whole file systems of the host, of which a sandbox is one folder.
    DeniedCalls(errno.ENOSYS, "fanotify_init quotactl quotactl_fd name_to_handle_at open_by_handle_at"),
    DeniedCalls(errno.ENOSYS, "fsopen fsconfig fsmount fspick open_tree open_tree_attr move_mount mount_setattr"),
    DeniedCalls(errno.EPERM, "mount umount2 pivot_root chroot setns"),
    # The machine itself, and its log.
    DeniedCalls(
        errno.EPERM, "kexec_load kexec_file_load init_module finit_module delete_module swapon swapoff reboot acct"
    ),
    DeniedCalls(errno.EPERM, "settimeofday clock_settime sethostname setdomainname syslog iopl ioperm"),
    # Pages by reference, and where in the machine they lie.
    DeniedCalls(errno.EPERM, "vmsplice move_pages migrate_pages"),
    # Its flags are in memory, where a filter can't read them; libraries then use `clone`.
    DeniedCalls(errno.ENOSYS, "clone3"),
)
NAMESPACE_CALLS = "clone unshare"
"""EPERM where their first argument has one of `NAMESPACES`."""
NAMESPACES = 0x7E020080
"""CLONE_NEW*."""
SOCKET_CALLS = "socket socketpair"
"""EAFNOSUPPORT for all families but `FAMILIES`: others load modules into the kernel, reach a hypervisor (AF_VSOCK) or
are shared with the host (AF_ALG)."""
FAMILIES = (1, 2, 10, 16, 17)
"""Unix, IPv4, IPv6, netlink (`getaddrinfo`), packet (whose answer is EPERM)."""
LEASE_CALL, LEASE_COMMAND = "fcntl", 1024
"""EINVAL where its second argument is F_SETLEASE: whoever opens or starts a file with a lease is held for a minute."""
NEWEST = 469
"""`file_setattr` of Linux 6.17. The numbers of the x32 ABI are above it as well."""

_NUMBERS = """
call             x86_64  aarch64
fcntl                72       25
socket               41      198
socketpair           53      199
clone                56      220
syslog              103      116
pivot_root          155       41
chroot              161       51
acct                163       89
settimeofday        164      170
mount               165       40
umount2             166       39
swapon              167      224
swapoff             168      225
reboot              169      142
sethostname         170      161
setdomainname       171      162
iopl                172        -
ioperm              173        -
init_module         175      105
delete_module       176      106
quotactl            179       60
lookup_dcookie      212       18
clock_settime       227      112
kexec_load          246      104
add_key             248      217
request_key         249      218
keyctl              250      219
migrate_pages       256      238
unshare             272       97
vmsplice            278       75
move_pages          279      239
perf_event_open     298      241
fanotify_init       300      262
name_to_handle_at   303      264
open_by_handle_at   304      265
setns               308      268
finit_module        313      273
seccomp             317      277
kexec_file_load     320      294
bpf                 321      280
userfaultfd         323      282
io_uring_setup      425      425
io_uring_enter      426      426
io_uring_register   427      427
open_tree           428      428
move_mount          429      429
fsopen              430      430
fsconfig            431      431
fsmount             432      432
fspick              433      433
clone3              435      435
pidfd_getfd         438      438
process_madvise     440      440
mount_setattr       442      442
quotactl_fd         443      443
memfd_secret        447      447
open_tree_attr      467      467
"""


class SyscallAbi(NamedTuple):
    """System call numbers of one kind of processor."""

    audit_arch: int
    """AUDIT_ARCH_* of linux/audit.h."""
    numbers: dict[str, int]
    """Of the calls above that it has."""


def _numbers(machine: str) -> dict[str, int]:
    head, *rows = (line.split() for line in _NUMBERS.strip().splitlines())
    column = head.index(machine)
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


MACHINES = {
    "x86_64": SyscallAbi(0xC000003E, _numbers("x86_64")),
    "aarch64": SyscallAbi(0xC00000B7, _numbers("aarch64")),
}
"""By the name that `uname` gives."""

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
"""Offsets in struct seccomp_data; of an argument, the low half."""
_KILL_PROCESS, _FAIL, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2
_SPEC_ALLOW = 1 << 2
"""No slower branches for filtered processes, which kernels before 5.16 would have."""


def program(machine: SyscallAbi) -> bytes:
    """Instructions as the kernel takes them. Each rule returns by itself: jumps reach no further than 255."""
    number = machine.numbers
    instructions = [_load(_ARCH), *_test(_IF_EQUAL, machine.audit_arch, no=[_return(_KILL_PROCESS)])]
    instructions += [_load(_NUMBER), *_test(_IF_AT_LEAST, NEWEST + 1, yes=[_return(_FAIL | errno.ENOSYS)])]
    for error, names in DENIED:
        for name in names.split():
            if name in number:
                instructions += _test(_IF_EQUAL, number[name], yes=[_return(_FAIL | error)])
    namespaces = _test(_IF_ANY_BIT, NAMESPACES, yes=[_return(_FAIL | errno.EPERM)])
    for name in NAMESPACE_CALLS.split():
        instructions += _test(_IF_EQUAL, number[name], yes=[_load(_FIRST_ARGUMENT), *namespaces, _return(_ALLOW)])
    families = [word for family in FAMILIES for word in _test(_IF_EQUAL, family, yes=[_return(_ALLOW)])]
    for name in SOCKET_CALLS.split():
        refuse = _return(_FAIL | errno.EAFNOSUPPORT)
        instructions += _test(_IF_EQUAL, number[name], yes=[_load(_FIRST_ARGUMENT), *families, refuse])
    lease = _test(_IF_EQUAL, LEASE_COMMAND, yes=[_return(_FAIL | errno.EINVAL)])
    instructions += _test(_IF_EQUAL, number[LEASE_CALL], yes=[_load(_SECOND_ARGUMENT), *lease, _return(_ALLOW)])
    return b"".join([*instructions, _return(_ALLOW)])


def check() -> None:
    """OSError where no filter can be loaded here."""
    if _HERE is None:
        machines = " and ".join(sorted(MACHINES))
        raise OSError(f"there is no filter of system calls for {os.uname().machine}: sandboxes run on {machines}")
    syscalls.seccomp(_HERE.numbers["seccomp"], _GET_ACTION_AVAIL, 0, struct.pack("=I", _KILL_PROCESS))


def load() -> None:
    """For this process and all that it starts, for good; needs NO_NEW_PRIVS, or all rights in its user namespace."""
    assert _HERE is not None
    syscalls.seccomp(_HERE.numbers["seccomp"], _SET_MODE_FILTER, _SPEC_ALLOW, _LOADED)


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, 0, 0, offset)


def _return(action: int) -> bytes:
    return _instruction(_RETURN, 0, 0, action)


def _test(kind: int, value: int, yes: "list[bytes] | None" = None, no: "list[bytes] | None" = None) -> list[bytes]:
    """Go through `yes` where what was loaded is so, through `no` where it is not; then on."""
    if yes is not None:
        return [_instruction(kind, 0, len(yes), value), *yes]
    assert no is not None
    return [_instruction(kind, len(no), 0, value), *no]


def _instruction(code: int, if_so: int, if_not: int, value: int) -> bytes:
    """struct sock_filter."""
    return struct.pack("=HBBI", code, if_so, if_not, value)


_HERE = MACHINES.get(os.uname().machine)
# Once for all sandboxes: their keepers are copies of this process.
_FILTER = program(_HERE) if _HERE else b""
_LOADED = syscalls.filter_program(_FILTER)
