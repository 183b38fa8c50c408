"""Filling what moves and what waits: output, pipes, sockets, queues, watches, timers, locks, tunnel, processors."""

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from benchmarks.faults.hostile.calls import breach, call, number

MIB = 1 << 20
PAUSE_S = 0.01
SENT_AT_ONCE = 250
"""Descriptors in one message; the kernel takes 253."""
TUNNEL = "TUNNEL_PORT"
"""The variable that holds it."""
_PIPE_SIZE = 1031
"""F_SETPIPE_SZ."""
_INOTIFY_INIT, _INOTIFY_ADD = number(294, 26), number(254, 27)
_TIMER_CREATE, _TIMER_SETTIME, _TIMERFD = number(222, 107), number(223, 110), number(283, 85)
_MQ_OPEN, _MQ_SEND = number(240, 180), number(242, 182)
_MSGGET, _MSGSND, _SEMGET = number(68, 186), number(69, 189), number(64, 190)
_SIGQUEUE = number(129, 138)
_ALL_EVENTS = 0xFFF
_NOTIFY = 1026
"""F_NOTIFY."""
_NOTIFY_ALL = 0x8000003F
_LEASE = 1024
"""F_SETLEASE."""


def output(chance: Random) -> None:
    """Write without end: one line, many lines, control characters, bytes that are no text."""
    chunk = chance.choice(
        (b"y\n" * 32768, b"x" * 65536, b"\x1b[2J\x07\x1b]0;t\x07" * 4096, chance.randbytes(65536), b"\0" * 65536, b"\n")
    )
    while True:
        with contextlib.suppress(OSError):
            os.write(1, chunk)


def pipes(chance: Random) -> None:
    """As large as they may be, full."""
    while True:
        held: list[int] = []
        with contextlib.suppress(OSError):
            while True:
                held += os.pipe2(os.O_NONBLOCK)
                with contextlib.suppress(OSError):
                    fcntl.fcntl(held[-1], _PIPE_SIZE, MIB)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        os.write(held[-1], b"x" * 65536)
        _let_go(held, chance)


def sockets(chance: Random) -> None:
    """Unix and loopback ones, with all that they take unread."""
    while True:
        held: list[socket.socket] = []
        with contextlib.suppress(OSError):
            while True:
                held += chance.choice((_unix, _loopback, _datagrams))()
        time.sleep(chance.uniform(0, 2))
        for one in held:
            one.close()


def _unix() -> tuple[socket.socket, ...]:
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return _filled(*pair)


def _loopback() -> tuple[socket.socket, ...]:
    listener = socket.create_server(("127.0.0.1", 0))
    return (listener, *_filled(socket.create_connection(listener.getsockname(), 1), listener))


def _datagrams() -> tuple[socket.socket, ...]:
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(receiver.getsockname())
    for _ in range(1000):
        sender.send(b"x" * 60000)
    return sender, receiver


def _filled(sender: socket.socket, other: socket.socket) -> tuple[socket.socket, ...]:
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sender.setsockopt(socket.SOL_SOCKET, option, 1 << 30)
    sender.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sender.send(b"x" * 65536)
    return sender, other


def in_flight(chance: Random) -> None:
    """Descriptors on their way through unix sockets, which are on their way themselves."""
    while True:
        held: list[socket.socket] = []
        with contextlib.suppress(OSError):
            while True:
                pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
                for one in pair:
                    one.setblocking(False)
                held += pair
                carried = [chance.choice(held).fileno() for _ in range(SENT_AT_ONCE)]
                with contextlib.suppress(BlockingIOError):
                    while True:
                        socket.send_fds(pair[0], [b"x"], carried)
                if chance.random() < 0.5:
                    held = held[-2:]
        time.sleep(chance.uniform(0, 2))


def watches(chance: Random) -> None:
    """Watch as many files as there may be, and make events for them."""
    while True:
        held: list[int] = []
        with contextlib.suppress(OSError):
            while (fd := call(_INOTIFY_INIT, os.O_NONBLOCK)) >= 0:
                held.append(fd)
                for folder, _, _ in os.walk("/usr"):
                    if call(_INOTIFY_ADD, fd, os.fsencode(folder) + b"\0", _ALL_EVENTS) < 0:
                        break
            for nth in range(5000):
                Path(f"/tmp/event{nth % 10}").touch()
        time.sleep(chance.uniform(0, 2))
        _let_go(held, chance)


def queues(chance: Random) -> None:
    """Messages of POSIX and System V, and semaphores: to what a user or a namespace may have."""
    while True:
        for nth in range(300):
            fd = call(_MQ_OPEN, b"q%d\0" % nth, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o600, 0)
            if fd < 0:
                break
            while call(_MQ_SEND, fd, b"x" * 8192, 8192, 0, 0) == 0:
                pass
        for _ in range(300):
            found = call(_MSGGET, 0, 0o1600)
            while found >= 0 and call(_MSGSND, found, struct.pack("l", 1) + b"x" * 8000, 8000, 0o4000) == 0:
                pass
            call(_SEMGET, 0, 250, 0o1600)
        time.sleep(chance.uniform(0, 2))


def timers(chance: Random) -> None:
    """As many as may be, as often as may be, and signals that wait."""
    signal.signal(signal.SIGVTALRM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
    signal.setitimer(signal.ITIMER_VIRTUAL, 1e-6, 1e-6)
    often = struct.pack("4q", 0, 1000, 0, 1000)
    event = struct.pack("q2i", 0, signal.SIGRTMIN, 0).ljust(64, b"\0")
    while True:
        made = ctypes.create_string_buffer(8)
        for _ in range(5000):
            if call(_TIMER_CREATE, chance.choice((0, 1)), event, made) < 0:
                break
            call(_TIMER_SETTIME, struct.unpack("i4x", made.raw)[0], 0, often, 0)
        information = struct.pack("3i", signal.SIGRTMIN, 0, -1).ljust(128, b"\0")
        for _ in range(100_000):
            if call(_SIGQUEUE, os.getpid(), int(signal.SIGRTMIN), information) < 0:
                break
        held = []
        while (fd := call(_TIMERFD, 1, 0)) >= 0:
            held.append(fd)
        _let_go(held, chance)


def epolls(chance: Random) -> None:
    """Epolls in epolls, and each with all that there is."""
    while True:
        held: list[select.epoll] = []
        with contextlib.suppress(OSError):
            read, write = os.pipe()
            while True:
                held.append(select.epoll())
                held[-1].register(read, select.EPOLLIN | select.EPOLLET)
                for one in chance.sample(held, min(len(held), 50)):
                    with contextlib.suppress(OSError):
                        held[-1].register(one.fileno(), select.EPOLLIN)
                os.write(write, b"x")
        time.sleep(chance.uniform(0, 1))
        for one in held:
            one.close()
        with contextlib.suppress(OSError):
            os.close(read)
            os.close(write)


def locks(chance: Random) -> None:
    """On files that all sandboxes of an image share, as far as they do."""
    shared = [Path(folder) / name for folder in ("/usr/bin", "/testbed", "/bin") for name in _listed(folder)][:200]
    held: list[int] = []
    while True:
        with contextlib.suppress(OSError):
            held.append(os.open(chance.choice(shared), os.O_RDONLY))
            fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.fcntl(held[-1], _LEASE, fcntl.F_RDLCK)
        with contextlib.suppress(OSError):
            fd = os.open("/tmp/locked", os.O_RDWR | os.O_CREAT)
            held.append(fd)
            for nth in range(5000):
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * nth)
        with contextlib.suppress(OSError):
            held.append(os.open("/testbed", os.O_RDONLY))
            fcntl.fcntl(held[-1], _NOTIFY, _NOTIFY_ALL)
        if len(held) > 300:
            _let_go(held, chance)
            held = []


def tunnel(chance: Random) -> None:
    """Calls that are half made, slow, huge, malformed, or many."""
    port = int(os.environ[TUNNEL])
    acts: tuple[Callable[[socket.socket, Random], None], ...] = (
        lambda one, _: one.sendall(b"POST /v1/resp"),
        lambda one, _: one.sendall(b"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X-Y: z\r\n" * 100_000),
        lambda one, _: one.sendall(_head(1 << 40) + b"{"),
        lambda one, _: one.sendall(_head(8 * MIB) + b"[" * (8 * MIB)),
        lambda one, _: one.sendall(_head(4 * MIB) + b'{"input": "' + b"x" * (4 * MIB - 13) + b'"}'),
        lambda one, chance: one.sendall(chance.randbytes(65536)),
        lambda one, _: one.sendall(
            b"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"
        ),
        _slow,
        _reset,
        _forbidden,
    )
    held: list[socket.socket] = []
    while True:
        with contextlib.suppress(OSError):
            held.append(socket.create_connection(("127.0.0.1", port), 1))
            held[-1].settimeout(1)
            chance.choice(acts)(held[-1], chance)
        if len(held) > 300 or chance.random() < 0.01:
            for one in held:
                one.close()
            held.clear()


def _head(size: int) -> bytes:
    return b"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % size


def _slow(one: socket.socket, _: Random) -> None:
    for byte in _head(100):
        one.send(bytes([byte]))
        time.sleep(PAUSE_S)


def _reset(one: socket.socket, _: Random) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.sendall(_head(2) + b"{}")
    one.close()


def _forbidden(one: socket.socket, chance: Random) -> None:
    path = chance.choice(("/", "/verify", "/v1/../verify", "http://127.0.0.1/seed_session", "/v1/files"))
    one.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    answer = one.recv(64)
    if b" 200 " in answer.partition(b"\r\n")[0]:
        breach(f"the tunnel gives {path}")


def processors(chance: Random) -> None:
    """More than there are, each in a session of its own: a scheduler that shares by sessions gives them more."""
    for _ in range(chance.randint(2, 40)):
        with contextlib.suppress(OSError):
            if os.fork() == 0:
                os.setsid()
                signal.alarm(10)
                break
    while True:
        pass


def calls(_: Random) -> None:
    """Without end, such as cost the kernel most."""
    path = "/" + "tmp/../" * 500
    os.sync()
    while True:
        with contextlib.suppress(OSError):
            os.stat(path)
            os.listdir("/proc")
            os.sched_yield()


def _let_go(held: list[int], chance: Random) -> None:
    time.sleep(chance.uniform(0, 2))
    for fd in held:
        try:
            os.close(fd)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise


def _listed(folder: str) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from sorted(os.listdir(folder))
