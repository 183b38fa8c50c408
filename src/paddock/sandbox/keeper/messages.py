"""JSON messages with descriptors over a SOCK_SEQPACKET socket; a long one travels in a memory file.

Bounds  a message has at most `MAX_BYTES` and `MAX_FDS` descriptors; nothing is read without a bound, or from what is no
        memory file.
Errors  EOFError: the other side is gone; OSError EMFILE: a descriptor came that there is no room for; OSError EMSGSIZE:
        what is to be sent is too long; MalformedMessage: what came is no message. Descriptors of what is not returned
        are closed.
"""

import array
import errno
import json
import os
import socket
import stat
import struct
from typing import Any, NamedTuple

INLINE_BYTES = 60_000
MAX_BYTES = 64 << 20
"""Some times what the kernel takes as a command's words, as JSON."""
MAX_FDS = 8
_LONG = b"@"
"""Stands for a body that is in the first descriptor."""
_CREDENTIALS = struct.Struct("iII")
"""Process, user and group id."""


class MalformedMessage(Exception):  # noqa: N818 - what came, not what went wrong here
    """What came is no message."""


class Packet(NamedTuple):
    """A message as it came."""

    body: bytes
    fds: "list[int]"
    """Ours now, closed on exec."""
    sender: int
    """Process that sent it, as the kernel saw it; 0 where the socket does not ask (`ask_for_senders`)."""


def ask_for_senders(channel: socket.socket) -> None:
    """From now on, packets carry their sender's process id; to give another needs rights over its pid namespace."""
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)


def send(channel: socket.socket, message: "dict[str, Any]", fds: "list[int] | None" = None) -> None:
    """Blocks where the socket does, else raises BlockingIOError."""
    body = json.dumps(message).encode()
    if len(body) > MAX_BYTES:
        raise OSError(errno.EMSGSIZE, f"a message of {len(body)} bytes: at most {MAX_BYTES} can be sent")
    descriptors = list(fds or ())
    memory = -1
    try:
        if len(body) > INLINE_BYTES:
            memory = os.memfd_create("message", os.MFD_CLOEXEC)
            with os.fdopen(memory, "wb", closefd=False) as file:
                file.write(body)
            descriptors.insert(0, memory)
            body = _LONG
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        channel.sendmsg([body], ancillary)
    finally:
        if memory >= 0:
            os.close(memory)


def receive(channel: socket.socket) -> "tuple[dict[str, Any], list[int]]":
    """The next message, and descriptors that are now ours."""
    packet = receive_packet(channel)
    return json.loads(packet.body), packet.fds


def receive_packet(channel: socket.socket, max_bytes: int = MAX_BYTES) -> Packet:
    """The next message, unread; MalformedMessage where its body is longer than that."""
    room = socket.CMSG_SPACE(MAX_FDS * 4) + socket.CMSG_SPACE(_CREDENTIALS.size)
    body, ancillary, flags, _ = channel.recvmsg(INLINE_BYTES + 4096, room, socket.MSG_CMSG_CLOEXEC)
    fds, sender = _read_ancillary(ancillary)
    try:
        if not body and not ancillary:
            raise EOFError("the other side is gone")
        if flags & socket.MSG_CTRUNC and len(fds) < MAX_FDS:
            raise OSError(errno.EMFILE, "a passed descriptor could not be taken")
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or not body or len(fds) > MAX_FDS:
            raise MalformedMessage(f"a packet of {len(body)} bytes or more with {len(fds)} descriptors or more")
        if body == _LONG:
            body = _read_long(fds, max_bytes)
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    return Packet(body, fds, sender)


def _read_ancillary(ancillary: "list[tuple[int, int, bytes]]") -> "tuple[list[int], int]":
    """Descriptors, and the sender."""
    fds = array.array("i")
    sender = 0
    for level, kind, data in ancillary:
        if level != socket.SOL_SOCKET:
            continue
        if kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        elif kind == socket.SCM_CREDENTIALS and len(data) >= _CREDENTIALS.size:
            sender = _CREDENTIALS.unpack_from(data)[0]
    return list(fds), sender


def _read_long(fds: "list[int]", max_bytes: int) -> bytes:
    """The body that is in the first of the descriptors, which goes."""
    if not fds:
        raise MalformedMessage("a long message without its memory file")
    memory = os.fstat(fds[0])
    if not stat.S_ISREG(memory.st_mode):
        raise MalformedMessage("a long message in what is no memory file")
    if memory.st_size > max_bytes:
        raise MalformedMessage(f"a message of {memory.st_size} bytes: at most {max_bytes} are taken")
    with os.fdopen(fds.pop(0), "rb", buffering=0) as file:
        # It may have grown.
        return os.pread(file.fileno(), max_bytes, 0)
