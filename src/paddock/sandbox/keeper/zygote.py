"""Forks a keeper for each socket that it is handed: a copy of a warm interpreter costs a millisecond, a new one twenty.

Started as `python -S -E -s -c ... FD`: the provider's socket is its only descriptor. Ends when that closes; the keepers
then see their own sockets close, and end too.
Each request is answered by its `id`: `forked` with the keeper's process id, or `refused` with what this machine lacks.
Unrequested `ended`: a keeper's process id, and its exit code, or minus the number of the signal that ended it.
Its stderr is the provider's to read, and no keeper's.
"""

import gc
import os
import select
import signal
import socket
import sys

from . import keeper, messages, shortage


def serve(fd: int) -> None:
    channel = socket.socket(fileno=fd)
    os.set_inheritable(fd, False)
    wakeup_read, wakeup_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    # What isn't loaded by now would be looked for where a keeper then is: among the sandbox's own files.
    sys.path.clear()
    gc.freeze()
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    poll.register(wakeup_read, select.POLLIN)
    try:
        while True:
            ready = {readable for readable, _ in poll.poll()}
            if wakeup_read in ready:
                os.read(wakeup_read, 4096)
                _report_ends(channel)
            if fd in ready:
                _fork(channel, (wakeup_read, wakeup_write))
    except (EOFError, ConnectionError):
        return


def _fork(channel: socket.socket, own: "tuple[int, ...]") -> None:
    """Answer one request; `own`: descriptors that a keeper is not to have."""
    message, fds = messages.receive(channel)
    try:
        child = os.fork()
        answer = {"op": "forked", "id": message["id"], "pid": child}
    except OSError as error:
        child = -1
        answer = {"op": "refused", "id": message["id"], "error": shortage.explain(error)}
    if child == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        channel.close()
        for inherited in own:
            os.close(inherited)
        os.dup2(1, 2)
        keeper.run(socket.socket(fileno=fds[0]))
    for descriptor in fds:
        os.close(descriptor)
    messages.send(channel, answer)


def _report_ends(channel: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        messages.send(channel, {"op": "ended", "pid": pid, "status": os.waitstatus_to_exitcode(status)})
