"""Forks a keeper for each socket that it is handed: a copy of a warm interpreter costs a millisecond, a new one twenty.

Started as `python -S -E -s -c ... FD`: the provider's socket is its only descriptor. Ends when that closes; the keepers
then see their own sockets close, and end too.
"""

import gc
import os
import signal
import socket
import sys

from . import keeper, messages


def serve(fd: int) -> None:
    link = socket.socket(fileno=fd)
    os.set_inheritable(fd, False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # What isn't loaded by now would be looked for where a keeper then is: among the sandbox's own files.
    sys.path.clear()
    gc.freeze()
    while True:
        try:
            _, fds = messages.receive(link)
        except EOFError:
            return
        if os.fork() == 0:
            link.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            keeper.run(socket.socket(fileno=fds[0]))
        for passed in fds:
            os.close(passed)
