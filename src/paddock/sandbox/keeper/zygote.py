"""Forks a keeper for each socket that it is handed: a copy of a warm interpreter costs a millisecond, a new one twenty.

Started as `python -S -E -s -c ... FD`: the provider's socket is its only descriptor. Ends when that closes; the keepers
then see their own sockets close, and end too.
Each wish is answered by its `id`: `forked` with the keeper's process id, or `refused` with what this machine lacks.
Its stderr is the provider's to read, and no keeper's.
"""

import gc
import os
import signal
import socket
import sys

from . import keeper, messages, shortage


def serve(fd: int) -> None:
    link = socket.socket(fileno=fd)
    os.set_inheritable(fd, False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # What isn't loaded by now would be looked for where a keeper then is: among the sandbox's own files.
    sys.path.clear()
    gc.freeze()
    while True:
        try:
            message, fds = messages.receive(link)
        except (EOFError, ConnectionError):
            return
        try:
            child = os.fork()
            answer = {"op": "forked", "id": message["id"], "pid": child}
        except OSError as error:
            child = -1
            answer = {"op": "refused", "id": message["id"], "error": shortage.explained(error)}
        if child == 0:
            link.close()
            os.dup2(1, 2)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            keeper.run(socket.socket(fileno=fds[0]))
        for passed in fds:
            os.close(passed)
        try:
            messages.send(link, answer)
        except ConnectionError:
            return
