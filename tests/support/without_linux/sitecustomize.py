"""A Python that seems to run on macOS: first on PYTHONPATH, it is imported before anything else, in each child, too.

Gone    what Python's modules have on Linux alone, by its documentation, and files below /proc and /sys.
Kept    for the standard library and psutil, which were built for this system and ask it. What Darwin's own calls do
        otherwise (limits, sockets, the sizes of names) can't be seen here.
"""

import asyncio
import ctypes
import fcntl
import multiprocessing.util  # noqa: F401
import os
import platform  # noqa: F401
import select
import selectors
import shutil  # noqa: F401
import signal
import socket
import subprocess  # noqa: F401
import sys
import sysconfig
import urllib.request  # noqa: F401
import zoneinfo  # noqa: F401
from typing import Any

import psutil  # noqa: F401

sysconfig.get_config_vars()
selectors.DefaultSelector = selectors.PollSelector  # type: ignore[assignment, misc]
GONE: dict[object, tuple[str, ...]] = {
    asyncio: ("PidfdChildWatcher",),
    fcntl: ("F_SETPIPE_SZ", "F_GETPIPE_SZ", "F_ADD_SEALS", "F_OFD_SETLK"),
    os: (
        *(
            "sched_getaffinity",
            "sched_setaffinity",
            "pidfd_open",
            "memfd_create",
            "eventfd",
            "splice",
        ),
        *(
            "copy_file_range",
            "unshare",
            "setns",
            "O_PATH",
            "O_TMPFILE",
            "posix_fadvise",
            "posix_fallocate",
            "fdatasync",
            "waitid",
        ),
        *("setresuid", "setresgid", "getresuid", "getrandom"),
    ),
    select: ("epoll",),
    signal: ("pidfd_send_signal", "sigtimedwait", "sigwaitinfo", "SIGRTMIN", "SIGRTMAX", "SIGPWR"),
    socket: (
        *("AF_NETLINK", "AF_PACKET", "AF_VSOCK", "SO_PEERCRED", "SO_BINDTODEVICE", "SOCK_CLOEXEC", "SOCK_NONBLOCK"),
        *("SOCK_SEQPACKET", "TCP_USER_TIMEOUT", "TCP_KEEPIDLE"),
    ),
}
if sys.version_info >= (3, 13):
    os.process_cpu_count = os.cpu_count  # as it is where a process has no affinity
for module, names in GONE.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)


def _hide(event: str, words: tuple[object, ...]) -> None:
    if event not in ("open", "os.listdir", "os.scandir") or not isinstance(words[0], str | bytes):
        return
    path = os.fsdecode(words[0])
    if not path.startswith(("/proc/", "/sys/")) and path not in ("/proc", "/sys"):
        return
    frame = sys._getframe(1)
    while frame is not None:
        if "/psutil/" in frame.f_code.co_filename:
            return
        frame = frame.f_back  # type: ignore[assignment]
    raise FileNotFoundError(2, "No such file or directory", path)


class _DarwinLibrary(ctypes.CDLL):
    def __getattr__(self, name: str) -> Any:
        if name in ("prctl", "unshare", "setns"):
            raise AttributeError(name)
        return super().__getattr__(name)


ctypes.CDLL = _DarwinLibrary  # type: ignore[misc]
sys.addaudithook(_hide)
sys.platform = "darwin"
