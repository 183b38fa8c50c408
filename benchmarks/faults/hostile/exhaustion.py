"""Using things up: processes, memory, disk, files, names, terminals; again and again, to the limit."""

import contextlib
import ctypes
import mmap
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from benchmarks.faults.hostile.calls import call, number

MIB = 1 << 20
PAUSE_S = 0.01
"""Where a limit is met."""
PLACES = ("/tmp", "/var/tmp", "/testbed", "/root", "/dev/shm")
LONGEST = 255
"""Bytes of a name."""
DEEP = 3000
FEW, MANY = 200, 4000
"""Files at a time."""
IPC_PRIVATE = 0
_SHMGET, _SHMAT = number(29, 194), number(30, 196)


def forks(chance: Random) -> None:
    """Processes to the limit, some in sessions of their own, which end by themselves."""
    while True:
        try:
            child = os.fork()
        except OSError:
            time.sleep(PAUSE_S)
            continue
        if child == 0:
            chance.seed(os.getpid())
            signal.alarm(chance.randint(1, 6))
            if chance.random() < 0.5:
                os.setsid()
            if chance.random() < 0.3:
                signal.pause()
        elif chance.random() < 0.2:
            with contextlib.suppress(OSError):
                os.waitpid(-1, os.WNOHANG)


def threads(chance: Random) -> None:
    while True:
        with contextlib.suppress(RuntimeError):
            while True:
                threading.Thread(target=time.sleep, args=(chance.uniform(0, 5),), daemon=True).start()
        time.sleep(PAUSE_S)


def memory(chance: Random) -> None:
    """Take memory of one kind until the process is killed or refused more."""
    take = chance.choice((_private, _shared, _in_files, _segments, _by_children))
    while True:
        with contextlib.suppress(OSError, MemoryError):
            take(chance)
        time.sleep(PAUSE_S)


def _private(chance: Random) -> None:
    held = []
    while True:
        held.append(bytearray(os.urandom(1)) * (chance.randint(1, 16) * MIB))


def _shared(_: Random) -> None:
    held = []
    while True:
        held.append(mmap.mmap(-1, 8 * MIB, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS))
        held[-1].write(b"x" * 8 * MIB)


def _in_files(chance: Random) -> None:
    """Files that are memory: `/dev/shm`, memfd."""
    if chance.random() < 0.5:
        Path(f"/dev/shm/{chance.random()}").write_bytes(b"x" * MIB * chance.randint(1, 64))
    fds = [os.memfd_create("x") for _ in range(8)]
    try:
        while True:
            os.write(chance.choice(fds), b"x" * MIB)
    finally:
        for fd in fds:
            os.close(fd)


def _segments(_: Random) -> None:
    while True:
        segment = call(_SHMGET, IPC_PRIVATE, 8 * MIB, 0o1600)
        if segment < 0:
            raise OSError(ctypes.get_errno(), "shmget")
        call(_SHMAT, segment, 0, 0)


def _by_children(_: Random) -> None:
    """Each a little, together more than the limit."""
    while True:
        if os.fork() == 0:
            signal.alarm(5)
            held = b"x" * (12 * MIB)
            signal.pause()
            del held


def writes(chance: Random) -> None:
    """Files to the limit of disk, then none."""
    while True:
        folder = _folder(chance)
        with contextlib.suppress(OSError):
            for nth in range(chance.randint(1, 64)):
                with (folder / str(nth)).open("wb", buffering=0) as file:
                    for _ in range(chance.randint(1, 32)):
                        file.write(os.urandom(1024) * 1024)
        shutil.rmtree(folder, ignore_errors=True)


def deleted(chance: Random) -> None:
    """Files that are in no folder any more: open, mapped, or on their way through a socket."""
    hold = chance.choice((_held, _mapped, _sent))
    while True:
        held: list[object] = []
        with contextlib.suppress(OSError, ValueError):
            while True:
                path = _folder(chance) / "deleted"
                fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
                path.unlink()
                os.posix_fallocate(fd, 0, chance.randint(1, 4) * MIB)
                held.append(hold(fd))
        time.sleep(chance.uniform(0, 2))
        for one in held:
            if isinstance(one, int):
                os.close(one)


def _held(fd: int) -> object:
    return fd


def _mapped(fd: int) -> object:
    found = mmap.mmap(fd, MIB)
    os.close(fd)
    return found


def _sent(fd: int) -> object:
    ours, theirs = socket.socketpair()
    socket.send_fds(ours, [b"x"], [fd])
    os.close(fd)
    return ours, theirs


def inodes(chance: Random) -> None:
    while True:
        folder = _folder(chance)
        with contextlib.suppress(OSError):
            for nth in range(MANY):
                (folder / str(nth)).touch()
        with contextlib.suppress(OSError):
            for nth in range(MANY):
                (folder / f"d{nth}").mkdir()
        if chance.random() < 0.7:
            shutil.rmtree(folder, ignore_errors=True)


def sparse(chance: Random) -> None:
    """Files as long as may be with nothing in them, or a byte here and there."""
    while True:
        path = _folder(chance) / "sparse"
        with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
            for size in (1 << 62, 1 << 40, 64 * MIB, 60 * MIB):
                with contextlib.suppress(OSError):
                    file.truncate(size)
                    break
            for _ in range(chance.randint(0, 200)):
                os.pwrite(file.fileno(), b"x", chance.randrange(60 * MIB))


def deep(chance: Random) -> None:
    """Folders in folders, whose whole paths no call takes."""
    while True:
        name = b"d" * chance.choice((1, LONGEST))
        with contextlib.suppress(OSError):
            os.chdir(_folder(chance))
            for _ in range(DEEP):
                os.mkdir(name)
                os.chdir(name)
        os.chdir("/")


def links(chance: Random) -> None:
    while True:
        folder = _folder(chance)
        with contextlib.suppress(OSError):
            (folder / "one").write_bytes(b"x" * 4096)
            for nth in range(MANY):
                os.link(folder / "one", folder / f"hard{nth}")
                target = chance.choice(
                    ("/", "..", f"soft{nth}", f"../{'../' * 60}etc/passwd", "/proc/1/root", "x" * 4000)
                )
                (folder / f"soft{nth}").symlink_to(target)
        if chance.random() < 0.5:
            shutil.rmtree(folder, ignore_errors=True)


def names(chance: Random) -> None:
    """The longest names, of any bytes, where the host lists what has changed."""
    while True:
        folder = os.fsencode(_folder(chance))
        with contextlib.suppress(OSError):
            for _ in range(MANY):
                name = chance.randbytes(LONGEST).translate(None, b"/\0") or b"\n"
                os.close(os.open(folder + b"/" + name, os.O_CREAT | os.O_WRONLY, chance.randrange(0o1000)))


def terminals(chance: Random) -> None:
    """The machine has so many for all."""
    while True:
        held: list[int] = []
        with contextlib.suppress(OSError):
            while True:
                held += os.openpty()
        time.sleep(chance.uniform(0, 3))
        for fd in held:
            os.close(fd)


def flips(chance: Random) -> None:
    """The repository's files by turns something else, while the host reads them."""
    root = Path("/testbed")
    found = [path for path in root.rglob("*") if path.is_file()][:FEW] or [root / "x"]
    acts: tuple[Callable[[Path], object], ...] = (
        lambda path: path.write_bytes(os.urandom(4096)),
        os.mkfifo,
        lambda path: path.symlink_to("/proc/1/mem"),
        lambda path: path.symlink_to("../" * 40 + "etc/shadow"),
        lambda path: path.mkdir(),
        lambda path: socket.socket(socket.AF_UNIX).bind(str(path)[:100]),
        lambda path: path.chmod(0),
        lambda path: path.parent.rename(path.parent.with_name("moved")),
        lambda path: os.setxattr(path, f"user.overlay.{chance.choice(('opaque', 'redirect', 'metacopy'))}", b"y"),
        lambda path: os.mknod(path, 0o020000, 0),
    )
    while True:
        path = chance.choice(found)
        if chance.random() < 0.5:
            with contextlib.suppress(OSError):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        with contextlib.suppress(OSError):
            chance.choice(acts)(path)


def vandalism(chance: Random) -> None:
    """The sandbox's own programs and git gone or made others: whoever starts some there gets what it gets."""
    for path in chance.sample(("/usr/bin/git", "/bin/sh", "/usr/bin/env", "/testbed/.git", "/tmp", "/etc/passwd"), 2):
        with contextlib.suppress(OSError):
            os.rename(path, f"{path}.away")
            kind = chance.randrange(3)
            if kind == 0:
                Path(path).write_text("#!/bin/cat\nnothing\n")
                os.chmod(path, 0o755)
            elif kind == 1:
                os.mkfifo(path)
    signal.pause()


def _folder(chance: Random) -> Path:
    """A new one."""
    path = Path(chance.choice(PLACES), f"{chance.getrandbits(64):x}")
    with contextlib.suppress(OSError):
        path.mkdir()
    return path
