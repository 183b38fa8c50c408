"""One sandbox: start it, join it, start its commands, tell how they end, and end it.

First message   `{"op": "start", ...}`: see `launch.Plan`. Answer `ready` with the payload's process id and the inode of
                its pid namespace, or `failed`.
Then            `{"op": "exec", "id", "argv", "env", "cwd", "terminal": null | [rows, columns], "fds": names}`; answers
                `started` with the host's process id (and the terminal's descriptor), later `exited` with the status;
                or `refused` with an errno when the command itself can't be started. `{"op": "listen", "id", "port"}`:
                answer `listening` with a socket of the sandbox's own network. `{"op": "open", "id", "path", "write",
                "mode"}`: answer `opened` with the file's descriptor.
Unasked         `died`: the sandbox has ended by itself.
"""

import contextlib
import os
import select
import signal
import socket
from typing import Any, NoReturn

from . import files, launch, messages, spawn


def run(link: socket.socket) -> NoReturn:
    """A keeper's whole life."""
    code = 0
    try:
        plan, fds = messages.receive(link)
        for fd in fds:
            os.close(fd)
        _Keeper(link, launch.Plan(plan)).live()
    except (EOFError, ConnectionError):
        pass
    except BaseException as error:  # noqa: BLE001 - the provider is told, whatever it is
        code = 1
        with contextlib.suppress(OSError):
            messages.send(link, {"op": "failed", "error": f"{type(error).__name__}: {error}"})
    os._exit(code)


class _Keeper:
    def __init__(self, link: socket.socket, plan: "launch.Plan") -> None:
        self._link = link
        self._plan = plan
        self._commands: dict[int, int] = {}
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def live(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        init = launch.start(self._plan)
        try:
            inside = launch.wait_until_ready(self._plan, init)
            launch.join(self._plan, inside)
            self._send({"op": "ready", "pid": inside.pid, "init": init.pid, "pid_ns": inside.pid_ns})
            self._serve(init.pid)
        finally:
            launch.end(init)

    def _serve(self, init: int) -> None:
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._woken in ready:
                os.read(self._woken, 4096)
                if not self._reap(init):
                    return
            if self._link.fileno() in ready:
                message, fds = messages.receive(self._link)
                try:
                    self._do(message, fds)
                finally:
                    for fd in fds:
                        os.close(fd)

    def _do(self, message: dict[str, Any], fds: list[int]) -> None:
        name = message["id"]
        try:
            if message["op"] == "exec":
                started = spawn.spawn(self._plan, message, fds)
                self._commands[started.pid] = name
                passed = [] if started.terminal is None else [started.terminal]
                self._send({"op": "started", "id": name, "pid": started.pid}, passed)
                for fd in passed:
                    os.close(fd)
            elif message["op"] == "open":
                with files.opened(message) as file:
                    self._send({"op": "opened", "id": name}, [file])
            elif message["op"] == "listen":
                with socket.socket() as listener:
                    listener.bind(("127.0.0.1", message["port"]))
                    listener.listen(64)
                    port = listener.getsockname()[1]
                    self._send({"op": "listening", "id": name, "port": port}, [listener.fileno()])
        except spawn.Refused as refusal:
            self._send({"op": "refused", "id": name, "errno": refusal.errno, "error": str(refusal)})
        except OSError as error:
            self._send({"op": "broken", "id": name, "errno": error.errno or 0, "error": str(error)})

    def _reap(self, init: int) -> bool:
        """Tell of commands that ended; False when the sandbox itself has."""
        alive = True
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            code = os.waitstatus_to_exitcode(status)
            if pid == init:
                alive = False
            elif pid in self._commands:
                self._send({"op": "exited", "id": self._commands.pop(pid), "code": code})
        if not alive:
            self._send({"op": "died", "error": "its first process ended"})
        return alive

    def _send(self, message: dict[str, Any], fds: "list[int] | None" = None) -> None:
        messages.send(self._link, message, fds)
