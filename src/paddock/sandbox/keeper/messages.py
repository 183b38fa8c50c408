"""JSON messages with descriptors over a SOCK_SEQPACKET socket; a long one travels in a memory file.

Errors  EOFError: the other side is gone; OSError EMFILE: a descriptor came that there is no room for.
"""

import array
import errno
import json
import os
import socket
from typing import Any

INLINE_BYTES = 60_000
MAX_FDS = 8


def send(link: socket.socket, message: dict[str, Any], fds: "list[int] | None" = None) -> None:
    """Blocks where the socket does, else raises BlockingIOError."""
    body = json.dumps(message).encode()
    passed = list(fds or ())
    memory = -1
    if len(body) > INLINE_BYTES:
        memory = os.memfd_create("message", os.MFD_CLOEXEC)
        os.write(memory, body)
        passed.insert(0, memory)
        body = b"@"
    try:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", passed))] if passed else []
        link.sendmsg([body], ancillary)
    finally:
        if memory >= 0:
            os.close(memory)


def receive(link: socket.socket) -> "tuple[dict[str, Any], list[int]]":
    """The next message, and descriptors that are now ours (closed on exec)."""
    body, ancillary, flags, _ = link.recvmsg(
        INLINE_BYTES + 4096, socket.CMSG_SPACE(MAX_FDS * 4), socket.MSG_CMSG_CLOEXEC
    )
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if not body:
        raise EOFError("the other side is gone")
    passed = list(fds)
    if flags & socket.MSG_CTRUNC:
        for fd in passed:
            os.close(fd)
        raise OSError(errno.EMFILE, "a passed descriptor could not be taken")
    if body == b"@":
        memory = passed.pop(0)
        with os.fdopen(memory, "rb") as file:
            file.seek(0)
            body = file.read()
    return json.loads(body), passed
