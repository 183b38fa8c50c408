"""Forks a keeper for each socket that it is handed: a copy of a warm interpreter costs a millisecond, a new one twenty.

Started as `python -S -E -s -c ... FD`: the provider's socket is its only descriptor. Ends when that closes; the keepers
then see their own sockets close, and end too.
Each wish is answered by its `id`: `forked` with the keeper's process id, or `refused` with what this machine lacks.
Unasked `ended`: a keeper's process id, and its exit code, or minus the number of the signal that ended it.
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
    link = socket.socket(fileno=fd)
    os.set_inheritable(fd, False)
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    # What isn't loaded by now would be looked for where a keeper then is: among the sandbox's own files.
    sys.path.clear()
    gc.freeze()
    poll = select.poll()
    poll.register(link, select.POLLIN)
    poll.register(woken, select.POLLIN)
    try:
        while True:
            ready = {one for one, _ in poll.poll()}
            if woken in ready:
                os.read(woken, 4096)
                _tell_ends(link)
            if fd in ready:
                _fork(link, (woken, wake))
    except (EOFError, ConnectionError):
        return


def _fork(link: socket.socket, own: "tuple[int, ...]") -> None:
    """Answer one wish; `own`: descriptors that a keeper is not to have."""
    message, fds = messages.receive(link)
    try:
        child = os.fork()
        answer = {"op": "forked", "id": message["id"], "pid": child}
    except OSError as error:
        child = -1
        answer = {"op": "refused", "id": message["id"], "error": shortage.explained(error)}
    if child == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        link.close()
        for one in own:
            os.close(one)
        os.dup2(1, 2)
        keeper.run(socket.socket(fileno=fds[0]))
    for passed in fds:
        os.close(passed)
    messages.send(link, answer)


def _tell_ends(link: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        messages.send(link, {"op": "ended", "pid": pid, "status": os.waitstatus_to_exitcode(status)})
