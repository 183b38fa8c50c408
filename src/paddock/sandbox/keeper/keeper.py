"""One sandbox: start it, join it, start its commands, tell how they end, and end it.

First message   `{"op": "start", ...}`: see `launch.Plan`; descriptors that come with it stay open until the sandbox has
                ended. Answer `ready` with the payload's process id and the inode of its pid namespace, or `failed`.
Then            `{"op": "exec", "id", "argv", "env", "cwd", "terminal": null | [rows, columns], "fds": names}`; answers
                `started` with the host's process id (and the terminal's descriptor), later `exited` with the status;
                or `refused` with an errno when the command itself can't be started, or was stopped before it could;
                `broken` with an errno for what failed, `inside` where that was the command's process or terminal, to
                which what runs inside has access. `{"op": "listen", "id", "port"}`:
                answer `listening` with a socket of the sandbox's own network. `{"op": "open", "id", "path", "write",
                "mode"}`: answer `opened` with the file's descriptor. `{"op": "alive", "id"}`: answer `alive`, but not
                of a sandbox that is ending.
Unasked         `died`: the sandbox has ended by itself; `status` of its first process: exit code, or minus the number
                of a signal; null where that is no child of the keeper's.
"""

import contextlib
import os
import select
import signal
import socket
import time
from typing import Any, NoReturn

from . import adopt, files, launch, messages, seccomp, shortage, spawn

END_S = 5.0
"""For a sandbox whose first process was killed to be gone."""
ERROR_CHARS = 4000
"""Of an error's text, in which a path of any length may stand."""
SETTLE_S = 0.003
"""For a signal that went to all of a sandbox to have reached its first process too."""


def run(link: socket.socket) -> NoReturn:
    """A keeper's whole life."""
    code = 0
    held: list[int] = []
    try:
        plan, held = messages.receive(link)
        _Keeper(link, launch.Plan(plan)).live()
    except (EOFError, ConnectionError):
        pass
    except BaseException as error:  # noqa: BLE001 - the provider is told, whatever it is
        code = 1
        with contextlib.suppress(OSError):
            messages.send(link, {"op": "failed", "error": shortage.named(error)})
    # Before the socket: who sees that it has ended can count on them.
    for fd in held:
        os.close(fd)
    os._exit(code)


class _Keeper:
    def __init__(self, link: socket.socket, plan: "launch.Plan") -> None:
        self._link = link
        self._plan = plan
        self._commands: dict[int, int] = {}
        self._init = 0
        self._status: int | None = None
        """Of `_init`, where it has ended."""
        self._doubted: list[int] = []
        """Who asked whether the sandbox is alive when it seemed to be ending."""
        self._doubted_until = 0.0
        """Monotonic second at which it is alive after all."""
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def live(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        seccomp.check()
        joined = adopt.adopt(self._plan) if self._plan.container else launch.launch(self._plan)
        try:
            # For the commands, which have it from here: to load it for each would take a tenth of a millisecond more.
            seccomp.load()
            self._send({"op": "ready", "pid": joined.pid, "init": joined.init, "pid_ns": joined.pid_ns})
            self._serve(joined)
        finally:
            joined.end()

    def _serve(self, joined: "launch.Joined") -> None:
        self._init = joined.init
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        poll.register(joined.life, select.POLLIN)
        while True:
            left_s = self._doubted_until - time.monotonic()
            if left_s <= 0:
                self._answer_doubts()
            ready = {fd for fd, _ in poll.poll(left_s * 1000 if self._doubted else None)}
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._reap()
            if joined.life in ready:
                self._reap()
                self._send({"op": "died", "error": "its first process ended", "status": self._status})
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
                # Not before: a program that anybody still has open for writing can't be started.
                self._send({"op": "closed", "id": name})
            elif message["op"] == "alive":
                if not self._doubted:
                    self._doubted_until = time.monotonic() + END_S
                self._doubted.append(name)
                if not _falling():
                    self._answer_doubts()
            elif message["op"] == "listen":
                with socket.socket() as listener:
                    listener.bind(("127.0.0.1", message["port"]))
                    listener.listen(64)
                    port = listener.getsockname()[1]
                    self._send({"op": "listening", "id": name, "port": port}, [listener.fileno()])
        except spawn.Refused as refusal:
            self._send({"op": "refused", "id": name, "errno": refusal.errno, "error": str(refusal)[:ERROR_CHARS]})
        except OSError as error:
            text = shortage.explained(error)[:ERROR_CHARS]
            inside = isinstance(error, spawn.ChildError)
            self._send({"op": "broken", "id": name, "errno": error.errno or 0, "error": text, "inside": inside})

    def _reap(self) -> None:
        """Tell of commands that ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            if pid == self._init:
                self._status = code
            if pid in self._commands:
                self._send({"op": "exited", "id": self._commands.pop(pid), "code": code})

    def _answer_doubts(self) -> None:
        """The sandbox lives."""
        for name in self._doubted:
            self._send({"op": "alive", "id": name})
        self._doubted.clear()

    def _send(self, message: dict[str, Any], fds: "list[int] | None" = None) -> None:
        messages.send(self._link, message, fds)


def _falling() -> bool:
    """Whether the sandbox is ending: a pid namespace whose first process was killed takes no new process."""
    for _ in range(2):
        try:
            pid = os.fork()
        except OSError:
            return True
        if pid == 0:
            os._exit(0)
        os.kill(pid, signal.SIGKILL)  # something inside may have stopped it
        os.waitpid(pid, 0)
        time.sleep(SETTLE_S)
    return False
