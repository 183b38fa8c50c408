"""System calls that Python 3.11 lacks, by ctypes. Each raises OSError with the call's name."""

import ctypes
import os
import resource
import signal
import struct

CLONE_NEWTIME = 0x00000080
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 4096
MS_REC, MS_PRIVATE = 16384, 1 << 18
MNT_DETACH = 2

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAP_VERSION_3 = 0x20080522
_CAP_LAST = 40

_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _CLOSE_RANGE, _MOUNT_SETATTR = 428, 429, 430, 431, 432, 436, 442
"""Numbers that are the same on all machines."""
_FSCONFIG_SET_FLAG, _FSCONFIG_SET_STRING, _FSCONFIG_CMD_CREATE = 0, 1, 6
_FSOPEN_CLOEXEC = _FSMOUNT_CLOEXEC = 1
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV, _MOUNT_ATTR_IDMAP = 1, 2, 4, 0x100000
_OPEN_TREE_CLONE = 1
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_MOVE_MOUNT_F_EMPTY_PATH = 4

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, name: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    _check(_libc.setns(fd, kind), "setns")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    result = _libc.mount(
        source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), os.fsencode(data) or None
    )
    _check(result, f"mount {kind or 'flags'} at {target}")


def read_only_overlay(lowerdir: str) -> int:
    """Descriptor of a mount that is not attached yet. `lowerdir`: two or more folders, as overlayfs takes them."""
    file_system = _descriptor(_libc.syscall(_FSOPEN, b"overlay", _FSOPEN_CLOEXEC), "fsopen")
    try:
        for command, key, value in (
            (_FSCONFIG_SET_FLAG, b"userxattr", None),
            (_FSCONFIG_SET_STRING, b"lowerdir", os.fsencode(lowerdir)),
            (_FSCONFIG_CMD_CREATE, None, None),
        ):
            _check(_libc.syscall(_FSCONFIG, file_system, command, key, value, 0), f"fsconfig overlay {lowerdir}")
        attributes = _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV
        return _descriptor(_libc.syscall(_FSMOUNT, file_system, _FSMOUNT_CLOEXEC, attributes), "fsmount")
    finally:
        os.close(file_system)


def idmapped(folder: str, user_ns: int, *, read_only: bool = False) -> int:
    """Descriptor of a mount of the folder that is not attached yet; in it, users of the disk are those of the host that
    they stand for in that user namespace."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC
    mount_fd = _descriptor(_libc.syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(folder), flags), f"open_tree {folder}")
    # struct mount_attr. Private, as what is mounted below it would else show in the host's mount namespace.
    attributes = _MOUNT_ATTR_IDMAP | (_MOUNT_ATTR_RDONLY if read_only else 0)
    words = struct.pack("=4Q", attributes, 0, MS_PRIVATE, user_ns)
    try:
        result = _libc.syscall(_MOUNT_SETATTR, mount_fd, b"", _AT_EMPTY_PATH, words, ctypes.c_size_t(len(words)))
        _check(result, f"mount_setattr idmap {folder}")
    except BaseException:
        os.close(mount_fd)
        raise
    return mount_fd


def move_mount(mount_fd: int, target: str) -> None:
    result = _libc.syscall(_MOVE_MOUNT, mount_fd, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    _check(result, f"move_mount to {target}")


def _descriptor(result: int, name: str) -> int:
    """A descriptor."""
    if result < 0:
        _check(-1, name)
    return result


def unmount(target: str) -> None:
    """Also where it is busy."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def sethostname(name: str) -> None:
    encoded = name.encode()
    _check(_libc.sethostname(encoded, len(encoded)), "sethostname")


def die_with_parent(signal_number: int) -> None:
    """The parent's death sends us this signal; cleared by a change of user, kept by exec."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl PDEATHSIG")


def be_dumpable() -> None:
    """Own our files in `/proc` again after a change of user."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl DUMPABLE")


def forbid_tracing() -> None:
    """Nothing without capabilities over the host may trace us, or take or see our descriptors; our files in `/proc` are
    root's. Children inherit it; exec ends it, after it has closed what it closes."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl DUMPABLE")


def close_from(fd: int) -> None:
    """Close that descriptor and all above it."""
    if _libc.syscall(_CLOSE_RANGE, ctypes.c_uint(fd), ctypes.c_uint(0xFFFFFFFF), 0) != 0:
        # Kernels before 5.9 lack the call.
        os.closerange(fd, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def become_subreaper() -> None:
    """Orphans among our descendants become our children; kept by exec."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl SUBREAPER")


class FilterProgram(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def filter_program(instructions: bytes) -> FilterProgram:
    return FilterProgram(len(instructions) // 8, instructions)


def seccomp(number: int, operation: int, flags: int, words: "bytes | FilterProgram") -> None:
    """`number`: the call's own, which differs by machine."""
    passed = words if isinstance(words, bytes) else ctypes.byref(words)
    _check(_libc.syscall(number, operation, flags, passed), "seccomp")


def default_signals() -> None:
    """No signal ignored, blocked or handled: a shell in the background or `nohup` hands such things down for ever."""
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)


def limit(which: int, value: int) -> None:
    """Soft and hard, never above what we may have."""
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def drop_privileges() -> None:
    """No capability in any set, and none to be had by exec."""
    for capability in range(_CAP_LAST + 1):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl NO_NEW_PRIVS")
    header = (ctypes.c_uint32 * 2)(_CAP_VERSION_3, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
