"""One server's process as its parent sees it: started, spoken to, waited for, and gone with all that it started.

Law     that of `paddock.processes.child`.
Output  its lines go to this process's stderr, each after the server's name.
Errors  InfraError: it ended or fell silent where a message was due. ConfigError: it said that the config is wrong.
"""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress

from pydantic import ValidationError

from paddock.errors import InfraError
from paddock.linux import require_supervision
from paddock.processes import Child, exit_in_words
from paddock.server.handover import GO, Handover, Status
from paddock.signals import hold_interrupts

DRAIN_S = 1.0
"""Seconds to read what an ended process still had to say; something it started may hold its output open."""


class ServerProcess:
    """`python -m paddock.server.child NAME`, started when made; it may still fail."""

    def __init__(self, handover: Handover) -> None:
        require_supervision()
        self.name = handover.name
        self._handover = handover
        self._channel, child_end = socket.socketpair()
        self._channel.settimeout(0)
        self._received = b""
        self._talking = False
        """The loop waits on the channel: it is not closed under it."""
        with child_end:
            process = _start(handover, child_end)
        pump = threading.Thread(target=_pump, args=(self.name, process), name=f"{self.name}-output", daemon=True)
        pump.start()
        self._child = Child(process, name=f"{self.name}-exit", at_end=lambda: pump.join(DRAIN_S))
        self._child.exited.add_done_callback(self._close_channel)
        self.pid = self._child.pid

    async def prepare(self) -> None:
        """Send the handover, and wait until the child could serve."""
        await self._exchange(self._handover.line(), "prepared")

    async def _exchange(self, data: bytes, event: str) -> None:
        """Send, and wait for the message `event`; raises what the process says instead."""
        line = b""
        if not self._child.exited.done():
            self._talking = True
            try:
                await self._send(data)
                line = await self._read_line()
            finally:
                self._talking = False
                if self._child.exited.done():
                    self._channel.close()
        if not line:
            how = exit_in_words(await self.exit_code())
            raise InfraError(f"{self.name}: its process {how} while starting", kind="child_died", retryable=False)
        try:
            status = Status.model_validate_json(line)
        except ValidationError as error:
            raise InfraError(f"{self.name}: unreadable message {line[:80]!r}", kind="child_unreadable") from error
        if status.event == "error":
            raise status.to_error(self.name)
        if status.event != event:
            raise InfraError(f"{self.name}: said {status.event} instead of {event}", kind="child_unreadable")

    async def go(self) -> None:
        """Let it serve."""
        await self._exchange(GO, "ready")

    async def exit_code(self) -> int:
        """Wait for its end: the exit code, negative for a signal. Nothing of its group is left then."""
        return await self._child.exit_code()

    async def stop(self, timeout_s: float) -> None:
        """Ask it to end, and kill it after `timeout_s`."""
        self._channel.close()
        await self._child.wait_or_kill(timeout_s)

    def kill(self) -> None:
        self._child.kill()

    async def _send(self, data: bytes) -> None:
        with suppress(ConnectionError):  # its end is told by `_ask`
            await asyncio.get_running_loop().sock_sendall(self._channel, data)

    async def _read_line(self) -> bytes:
        """Its next message; empty when it has closed its side."""
        loop = asyncio.get_running_loop()
        with suppress(ConnectionError):
            while b"\n" not in self._received:
                data = await loop.sock_recv(self._channel, 64 * 1024)
                if not data:
                    return b""
                self._received += data
            line, _, self._received = self._received.partition(b"\n")
            return line
        return b""

    def _close_channel(self, _: object) -> None:
        if not self._talking:
            self._channel.close()


def _start(handover: Handover, channel: socket.socket) -> "subprocess.Popen[bytes]":
    # -P: the working directory comes first on the path only where the parent's own path, handed over, says so.
    command = [handover.python or sys.executable, "-P", "-m", "paddock.server.child", handover.name]
    with hold_interrupts():
        return subprocess.Popen(
            command,
            stdin=channel.fileno(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(handover.listen_fd,),
            start_new_session=True,
            # Lines come when they are written, and the last words of one that dies are not lost.
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )


def _pump(name: str, process: "subprocess.Popen[bytes]") -> None:
    output = process.stdout
    assert output is not None  # it is a pipe
    with output:
        while line := output.readline(64 * 1024):
            text = line.decode(errors="replace").rstrip("\n")
            with suppress(ValueError):  # our stderr is closed
                sys.stderr.write(f"{name} | {text}\n")
                sys.stderr.flush()
