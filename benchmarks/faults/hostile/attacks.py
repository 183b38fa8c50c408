"""What must not be possible, tried; and what is, against all that runs in the same sandbox."""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import struct
import time
from pathlib import Path
from random import Random

from benchmarks.faults.hostile.calls import breach, call, number

CANARY_PORT, CANARY_NAME, CANARY_FOLDER = "CANARY_PORT", "CANARY_NAME", "CANARY_FOLDER"
"""Variables: what listens on the host, a port of loopback and the name of an abstract socket; a folder of the host."""
SOON_S = 0.001
_PTRACE, _ATTACH, _SEIZE = number(101, 117), 16, 0x4206
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_READV, _BASE = number(310, 270), 0x400000
_SETSCHEDULER = number(144, 119)
_IOPRIO = number(251, 30)
_CLONE = number(56, 220)
_NEWUSER = 0x10000000
_NAMESPACES = 0x7E020000
DENIED = {
    "keyctl": (number(250, 219), (0, -3, 1)),
    "add_key": (number(248, 217), (b"user\0", b"x\0", b"x", 1, -3)),
    "request_key": (number(249, 218), (b"user\0", b"x\0", 0, -3)),
    "io_uring_setup": (425, (8, b"\0" * 120)),
    "bpf": (number(321, 280), (0, b"\0" * 128, 128)),
    "userfaultfd": (number(323, 282), (1,)),
    "perf_event_open": (number(298, 241), (b"\0" * 128, 0, -1, -1, 0)),
    "memfd_secret": (447, (0,)),
    "fanotify_init": (number(300, 262), (0, 0)),
    "open_by_handle_at": (number(304, 265), (-100, b"\x08\0\0\0\x01\0\0\0" + b"\0" * 8, 0)),
    "name_to_handle_at": (number(303, 264), (-100, b"/\0", b"\x80\0\0\0" + b"\0" * 132, b"\0" * 8, 0)),
    "fsopen": (430, (b"tmpfs\0", 0)),
    "open_tree": (428, (-100, b"/\0", 1)),
    "mount": (number(165, 40), (b"x\0", b"/tmp\0", b"tmpfs\0", 0, 0)),
    "umount2": (number(166, 39), (b"/proc\0", 2)),
    "pivot_root": (number(155, 41), (b"/\0", b"/\0")),
    "chroot": (number(161, 51), (b"/tmp\0",)),
    "unshare": (number(272, 97), (_NEWUSER,)),
    "unshare all": (number(272, 97), (_NAMESPACES | _NEWUSER,)),
    "clone3": (435, (b"\0" * 88, 88)),
    "sethostname": (number(170, 161), (b"x", 1)),
    "settimeofday": (number(164, 170), (b"\0" * 16, 0)),
    "syslog": (number(103, 116), (3, b"\0" * 64, 64)),
    "quotactl": (number(179, 60), (0x800002, b"/\0", 0, 0)),
    "setuid": (number(105, 146), (1000,)),
    "setgroups": (number(116, 159), (0, 0)),
}
"""Number and arguments of calls that must fail, by name."""
FAMILIES = (15, 21, 27, 38, 40, 44)
"""Families of sockets that must not be given: keys, RDS, InfiniBand, the kernel's ciphers, the hypervisor, XDP."""
CLOSED = (
    *("/proc/1/mem", "/proc/1/environ", "/proc/1/maps", "/proc/kcore", "/proc/sysrq-trigger", "/dev/mem", "/dev/kmsg"),
    *("/proc/sys/kernel/core_pattern", "/proc/sys/user/max_user_namespaces", "/proc/sys/net/ipv4/ip_forward"),
    *("/sys/fs/cgroup/release_agent", "/sys/kernel/uevent_helper", "/dev/sda", "/dev/vda", "/dev/fuse"),
)
"""Must not be opened for reading and writing, in so far as they are there."""


def killing(chance: Random) -> None:
    """All that can be reached, again and again; the killer is spared by the kernel."""
    signals = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGCONT, signal.SIGHUP)
    for _ in range(chance.choice((1, 3, 100))):
        with contextlib.suppress(OSError):
            os.kill(-1, chance.choice(signals))
        time.sleep(chance.choice((0, SOON_S, 0.1)))


def stopping(chance: Random) -> None:
    """Whatever runs beside it, for a time or for good."""
    while True:
        for pid in _others():
            with contextlib.suppress(OSError):
                os.kill(pid, chance.choice((signal.SIGSTOP, signal.SIGSTOP, signal.SIGCONT, signal.SIGTSTP)))
        time.sleep(chance.choice((0, SOON_S, 0.1)))


def starts(chance: Random) -> None:
    """Commands that have just come: stopped, traced, limited, killed before they are what they will be."""
    before = set(_others())
    act = chance.choice((_stop, _kill, _limit, _trace, _pin))
    while True:
        now = set(_others())
        for pid in now - before:
            with contextlib.suppress(OSError, ValueError):
                act(pid)
        before = now


def _stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def _limit(pid: int) -> None:
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE):
        resource.prlimit(pid, kind, (0, 0))


def _trace(pid: int) -> None:
    call(_PTRACE, _SEIZE, pid, 0, 0)


def _pin(pid: int) -> None:
    os.sched_setaffinity(pid, {0})
    os.setpriority(os.PRIO_PROCESS, pid, 19)
    Path(f"/proc/{pid}/oom_score_adj").write_text("1000")


def tracing(_: Random) -> None:
    """The first process, and whatever else is there: memory, descriptors, roots."""
    while True:
        for pid in (1, *_others()):
            for name in (
                "mem",
                "environ",
                "maps",
                "stack",
                "syscall",
                "cwd",
                "root",
                "exe",
                "fd/0",
                "ns/net",
                "map_files",
            ):
                with contextlib.suppress(OSError):
                    os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_NONBLOCK))
                    if pid == 1 and name in ("mem", "environ", "cwd", "root", "fd/0"):
                        breach(f"/proc/1/{name} is open")
            if (descriptor := call(_PIDFD_OPEN, pid, 0)) >= 0:
                if call(_PIDFD_GETFD, descriptor, 0, 0) >= 0:
                    breach(f"pidfd_getfd of {pid}")
                os.close(descriptor)
        for request in (_ATTACH, _SEIZE):
            if call(_PTRACE, request, 1, 0, 0) == 0:
                breach("ptrace of the first process")
        taken = ctypes.create_string_buffer(8)
        ours, theirs = struct.pack("2Q", ctypes.addressof(taken), 8), struct.pack("2Q", _BASE, 8)
        if call(_READV, 1, ours, 1, theirs, 1, 0) > 0:
            breach("memory of the first process")


def denied(chance: Random) -> None:
    """Calls that the filter or the lack of capabilities refuses."""
    while True:
        for name, (which, arguments) in DENIED.items():
            if (
                call(which, *(ctypes.create_string_buffer(one) if isinstance(one, bytes) else one for one in arguments))
                >= 0
            ):
                breach(name)
        for family in FAMILIES:
            with contextlib.suppress(OSError):
                socket.socket(family, chance.choice((1, 2, 3, 5))).close()
                breach(f"a socket of family {family}")
        with contextlib.suppress(OSError):
            socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close()
            breach("a raw socket")
        namespaces = [f"/proc/{pid}/ns/{kind}" for pid in (1, "self") for kind in ("user", "mnt", "pid", "net")]
        with contextlib.suppress(OSError):
            fd = os.open(chance.choice(namespaces), os.O_RDONLY)
            if call(number(308, 268), fd, 0) == 0:
                breach("setns")
            os.close(fd)
        _clones()
        time.sleep(chance.choice((0, SOON_S)))


def _clones() -> None:
    pid = call(_CLONE, _NEWUSER | int(signal.SIGCHLD), 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    if pid > 0:
        breach("clone into a new user namespace")


def escapes(chance: Random) -> None:
    """Out of the file system, the network and the limits."""
    folder = os.environ[CANARY_FOLDER]
    ways = (
        "",
        "/proc/1/root",
        "/proc/self/root",
        "/proc/1/cwd",
        "/proc/self/cwd",
        "/..",
        "/proc/self/fd/0",
        "/dev/fd/3",
    )
    while True:
        for way in ways:
            for path in (f"{way}{folder}/everybody", f"{way}{'/..' * 40}{folder}/everybody"):
                with contextlib.suppress(OSError):
                    os.close(os.open(path, os.O_RDWR))
                    breach(f"{path} is open")
        for path in CLOSED:
            with contextlib.suppress(OSError):
                os.close(os.open(path, os.O_RDWR))
                breach(f"{path} is open")
        for family, address in (
            (socket.AF_INET, ("127.0.0.1", int(os.environ[CANARY_PORT]))),
            (socket.AF_UNIX, f"\0{os.environ[CANARY_NAME]}"),
            (socket.AF_INET, ("169.254.169.254", 80)),
            (socket.AF_INET, ("10.0.0.1", 80)),
        ):
            with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as one:
                one.settimeout(0.1)
                one.connect(address)
                breach(f"{address} answers")
        with contextlib.suppress(OSError):
            os.mknod(f"/tmp/{chance.getrandbits(64):x}", 0o060600, os.makedev(254, 0))
            breach("a device")
        with contextlib.suppress(OSError):
            os.chown("/tmp", 1000, 1000)
            breach("another's file")


def priority(chance: Random) -> None:
    """More than its share of the machine."""
    while True:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, -chance.randint(1, 20))
            breach("a higher priority")
        for policy in (1, 2):
            if call(_SETSCHEDULER, 0, policy, ctypes.create_string_buffer(b"\x01\0\0\0")) == 0:
                breach("real time")
        if call(_IOPRIO, 1, 0, 1 << 13) == 0:
            breach("real time of the disk")
        with contextlib.suppress(OSError, ValueError):
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (most + 1, most + 1))
            breach("more descriptors")
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("-1000")
            breach("spared by the kernel")


def _others() -> list[int]:
    """Processes but the first and this one."""
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]
    return []
