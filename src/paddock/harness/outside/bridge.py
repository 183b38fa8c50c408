"""`python -I bridge.py DRIVER`: the program's end of the channel, under its own interpreter. Standard library only.

Driver  a file with `drive(bridge, start)`: it runs the program on the task that `start` describes, and returns how that
        ended: `{"ended": ..., "text": ...}`, see `paddock.harness.outside.bridge_server.DriverExit`. What it raises is
        a failure.
Channel a socket, which is stdout when this begins, and of which no child of this process gets anything; then stdout is
        stderr, so that no print disturbs it. JSON lines: `{"id", "op", ...}` there, `{"id", "ok" | "error"}` back. Any
        thread may ask, many at once.
End     when the other side closes the channel, this process ends, wherever it is.
Errors  those of files, as the class that they are inside; TypeError, ValueError for words that are none.
"""

import base64
import builtins
import importlib.util
import json
import os
import socket
import sys
import threading
import traceback
from concurrent.futures import Future
from typing import Any

MAX_FAILURE_CHARS = 4000
"""Characters of a failure that are reported."""


class Bridge:
    """The sandbox as a driver's tools see it. Requests raise OSError and ValueError, as an error of a file says."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._pending: dict[int, Future[Any]] = {}
        self._count = 0
        self._lines = channel.makefile("rb")
        self.start: dict[str, Any] = json.loads(self._lines.readline() or b"{}")
        threading.Thread(target=self._listen, name="bridge", daemon=True).start()

    def exec(
        self,
        line: str | None = None,
        *,
        argv: list[str] | None = None,
        timeout_s: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        stdin: str = "",
    ) -> dict[str, Any]:
        """Run a line of bash, or `argv`. Returns `output`, `exit_code`, `timed_out`, `refused` (the rule, or None)."""
        words = argv if line is None else ["bash", "-c", line]
        if words is None or not all(isinstance(word, str) for word in words):
            raise TypeError(f"the words of a command are texts, not {words!r}"[:MAX_FAILURE_CHARS])
        return dict(self._ask("exec", argv=words, timeout_s=timeout_s, cwd=cwd, env=env or {}, stdin=stdin))

    def read(self, path: str) -> bytes:
        return base64.b64decode(self._ask("read", path=path)["data"])

    def write(self, path: str, data: bytes) -> None:
        self._ask("write", path=path, data=base64.b64encode(data).decode())

    def shell(self) -> "BridgeShell":
        """Open a shell; many may be open at once."""
        return BridgeShell(self, self._ask("shell_open")["shell"])

    def send_end(self, driver_exit: dict[str, Any]) -> None:
        self._send({"op": "end", **driver_exit})

    def _ask(self, op: str, **fields: Any) -> Any:
        answer: Future[Any] = Future()
        with self._lock:
            self._count += 1
            number = self._count
            self._pending[number] = answer
        self._send({"id": number, "op": op, **fields})
        return answer.result()

    def _send(self, message: dict[str, Any]) -> None:
        # Half a surrogate pair, which a model may well write, is no text.
        data = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with self._lock:
            self._channel.sendall(data)

    def _listen(self) -> None:
        try:
            for line in self._lines:
                message = json.loads(line)
                with self._lock:
                    answer = self._pending.pop(message["id"])
                if "error" in message:
                    answer.set_exception(_error(**message["error"]))
                else:
                    answer.set_result(message["ok"])
        finally:
            os._exit(0)


class BridgeShell:
    """A shell that keeps its folder and variables. Each result: `output` since the last, `exit_code` (None: it runs),
    `workdir`, `timed_out`, `refused`, and `closed`: the shell itself has ended."""

    def __init__(self, bridge: Bridge, number: int) -> None:
        self._bridge = bridge
        self._number = number

    def run(self, line: str, *, timeout_s: float | None = None, wait_s: float | None = None) -> dict[str, Any]:
        """Run a line: after `wait_s` it goes on in the background, after `timeout_s` its process tree is killed."""
        return self._ask("shell_run", line=line, timeout_s=timeout_s, wait_s=wait_s)

    def poll(self, *, wait_s: float = 0.0) -> dict[str, Any]:
        return self._ask("shell_poll", wait_s=wait_s)

    def type(self, text: str, *, wait_s: float = 0.0) -> dict[str, Any]:
        return self._ask("shell_type", text=text, wait_s=wait_s)

    def interrupt(self) -> dict[str, Any]:
        return self._ask("shell_interrupt")

    def close(self) -> None:
        self._ask("shell_close")

    def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        return dict(self._bridge._ask(op, shell=self._number, **fields))


def _error(kind: str, text: str) -> Exception:
    cls = getattr(builtins, kind, None)
    if isinstance(cls, type) and issubclass(cls, (OSError, ValueError)):
        return cls(text)
    return OSError(f"{kind}: {text}")


def _private_channel() -> socket.socket:
    channel = socket.socket(fileno=os.dup(1))
    os.dup2(2, 1)
    return channel


def _drive(path: str, bridge: Bridge) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("driver", path)
    assert spec is not None
    assert spec.loader is not None
    driver = importlib.util.module_from_spec(spec)
    sys.modules["driver"] = driver
    spec.loader.exec_module(driver)
    driver_exit: dict[str, Any] = driver.drive(bridge, bridge.start)
    return driver_exit


def main(path: str) -> None:
    bridge = Bridge(_private_channel())
    try:
        driver_exit = _drive(path, bridge)
    except BaseException:  # noqa: BLE001 - whatever ends a program is reported
        driver_exit = {"ended": "failed", "text": traceback.format_exc()[-MAX_FAILURE_CHARS:]}
    bridge.send_end(driver_exit)
    threading.Event().wait()  # until the other side has read this process's files


if __name__ == "__main__":
    main(sys.argv[1])
