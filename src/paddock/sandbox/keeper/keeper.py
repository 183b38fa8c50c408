"""The keeper of one sandbox: it starts the sandbox, joins it, starts its commands, reports their ends, and ends it.

First message   `{"op": "start", "plan"}`: see `launch.StartPlan`; descriptors that come with it stay open until
                its end. Answer `ready` with the payload's process id and the inode of its pid namespace, or `failed`.
Then            `{"op": "exec", "id", "argv", "env", "cwd", "terminal": null | [rows, columns], "fds": names}`; answers
                `started` with the host's process id (and the terminal's descriptor), later `exited` with the status;
                or `refused` with an errno when the command itself can't be started, or was stopped before it could;
                `broken` with an errno for what failed, `inside` where that was the command's process or terminal, to
                which what runs inside has access. `{"op": "listen", "id", "port"}`:
                answer `listening` with a socket of the sandbox's own network. `{"op": "open", "id", "path", "write",
                "mode"}`: answer `opened` with the file's descriptor. `{"op": "alive", "id"}`: answer `alive`, but not
                of a sandbox that is ending.
Unrequested     `died`: the sandbox has ended by itself; `status` of its first process: exit code, or minus the number
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
"""Seconds for a sandbox whose first process was killed to be gone."""
ERROR_CHARS = 4000
"""Most characters of an error's text, which may hold a path of any length."""
SETTLE_S = 0.003
"""Seconds for a signal that went to all of a sandbox to have reached its first process too."""


def run(channel: socket.socket) -> NoReturn:
    """A keeper's whole life."""
    code = 0
    held: list[int] = []
    try:
        message, held = messages.receive(channel)
        plan = launch.StartPlan(**message["plan"])
        fds = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in plan.cgroups]
        _Keeper(channel, plan._replace(runtime=launch.RuntimeStart(*plan.runtime), cgroup_fds=fds)).live()
    except (EOFError, ConnectionError):
        pass
    except BaseException as error:  # noqa: BLE001 - reported to the provider, whatever it is
        code = 1
        with contextlib.suppress(OSError):
            messages.send(channel, {"op": "failed", "error": shortage.describe(error)})
    # Before the socket closes: whoever sees that end can count on them being closed.
    for fd in held:
        os.close(fd)
    os._exit(code)


class _Keeper:
    def __init__(self, channel: socket.socket, plan: "launch.StartPlan") -> None:
        self._channel = channel
        self._plan = plan
        self._commands: dict[int, int] = {}
        self._init = 0
        self._status: int | None = None
        """Of `_init`, where it has ended."""
        self._alive_requests: list[int] = []
        """Ids of `alive` requests that came when the sandbox seemed to be ending."""
        self._alive_deadline = 0.0
        """Monotonic second at which they are answered, if it has not ended by then."""
        self._wakeup_read, self._wakeup_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def live(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        seccomp.check()
        joined = adopt.adopt(self._plan) if self._plan.runtime.container else launch.launch(self._plan)
        try:
            # For the commands, which have it from here: to load it for each would take a tenth of a millisecond more.
            seccomp.load()
            self._send({"op": "ready", "pid": joined.pid, "init": joined.init, "pid_ns": joined.pid_ns})
            self._serve(joined)
        finally:
            joined.end()

    def _serve(self, joined: "launch.JoinedSandbox") -> None:
        self._init = joined.init
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(self._wakeup_read, select.POLLIN)
        poll.register(joined.pidfd, select.POLLIN)
        while True:
            left_s = self._alive_deadline - time.monotonic()
            if left_s <= 0:
                self._answer_alive()
            ready = {fd for fd, _ in poll.poll(left_s * 1000 if self._alive_requests else None)}
            if self._wakeup_read in ready:
                os.read(self._wakeup_read, 4096)
                self._reap()
            if joined.pidfd in ready:
                self._reap()
                self._send({"op": "died", "error": "its first process ended", "status": self._status})
                return
            if self._channel.fileno() in ready:
                message, fds = messages.receive(self._channel)
                try:
                    self._handle(message, fds)
                finally:
                    for fd in fds:
                        os.close(fd)

    def _handle(self, message: dict[str, Any], fds: list[int]) -> None:
        request_id = message["id"]
        try:
            if message["op"] == "exec":
                spawned = spawn.spawn(self._plan, message, fds)
                self._commands[spawned.pid] = request_id
                terminals = [] if spawned.terminal is None else [spawned.terminal]
                self._send({"op": "started", "id": request_id, "pid": spawned.pid}, terminals)
                for fd in terminals:
                    os.close(fd)
            elif message["op"] == "open":
                with files.open_regular(message) as file:
                    self._send({"op": "opened", "id": request_id}, [file])
                # Not before: a program that anybody still has open for writing can't be started.
                self._send({"op": "closed", "id": request_id})
            elif message["op"] == "alive":
                if not self._alive_requests:
                    self._alive_deadline = time.monotonic() + END_S
                self._alive_requests.append(request_id)
                if not _is_ending():
                    self._answer_alive()
            elif message["op"] == "listen":
                with socket.socket() as listener:
                    listener.bind(("127.0.0.1", message["port"]))
                    listener.listen(64)
                    port = listener.getsockname()[1]
                    self._send({"op": "listening", "id": request_id, "port": port}, [listener.fileno()])
        except spawn.ExecError as refusal:
            self._send({"op": "refused", "id": request_id, "errno": refusal.errno, "error": str(refusal)[:ERROR_CHARS]})
        except OSError as error:
            text = shortage.explain(error)[:ERROR_CHARS]
            inside = isinstance(error, spawn.ChildError)
            self._send({"op": "broken", "id": request_id, "errno": error.errno or 0, "error": text, "inside": inside})

    def _reap(self) -> None:
        """Report commands that ended."""
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

    def _answer_alive(self) -> None:
        """Answer all `alive` requests: the sandbox lives."""
        for request_id in self._alive_requests:
            self._send({"op": "alive", "id": request_id})
        self._alive_requests.clear()

    def _send(self, message: dict[str, Any], fds: "list[int] | None" = None) -> None:
        messages.send(self._channel, message, fds)


def _is_ending() -> bool:
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
