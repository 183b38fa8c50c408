"""The process of a program outside: it is started, has a channel to us, and ends with all that it started.

Law     the supervisor stands over it (`paddock.processes`): as we end, in whatever way, all that the program started is
        killed, and its folder is removed. Where both are killed the next program removes it (`paddock.temporary`).
Env     `PATH`, `HOME` and `TMPDIR` (the folder), `LANG`, `TZ`, and what the plugin adds: nothing else of ours.
Output  both streams of the program are one; its end is kept for errors.
Errors  InfraError "program_start": it can't be started.
"""

import asyncio
import os
import shutil
import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from paddock.errors import InfraError
from paddock.processes import Supervised, start_supervised
from paddock.processes.command import GRACE_S
from paddock.temporary import Hold, hold_scratch

LINE_BYTES = 1 << 28
"""Longest line of the channel: a file in base64."""
OUTPUT_TAIL_BYTES = 1 << 14
LISTEN_S = 5.0
"""Seconds to wait for the last of its output after its end."""
PATH = "/usr/local/bin:/usr/bin:/bin"


class OutsideProcess:
    """`async with` starts it, and ends when the process and all that it started have ended."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def __init__(self, argv: Sequence[str | Path], env: Mapping[str, str]) -> None:
        self.home = Path()
        """Its folder, while it lives."""
        self._scratch: Hold | None = None
        self._argv = [str(word) for word in argv]
        self._env = env
        self._output_tail = b""
        self._child: Supervised | None = None

    @property
    def pid(self) -> int:
        """The supervisor's, which leads the group."""
        assert self._child is not None  # it was started
        return self._child.pid

    async def exit_code(self) -> int:
        """Wait for its end and return its exit code, 128 and the signal's number where one killed it."""
        assert self._child is not None  # it was started
        code = await self._child.exit_code()
        return code if code >= 0 else 128 - code

    @property
    def output_tail(self) -> str:
        """The end of what it wrote."""
        return self._output_tail.decode(errors="replace").strip()

    async def __aenter__(self) -> Self:
        self._scratch = self._hold()
        self.home = self._scratch.folder
        ours, theirs = socket.socketpair()
        read_fd, write_fd = os.pipe()
        try:
            listener = threading.Thread(target=self._listen, args=(read_fd,), name="program-output", daemon=True)
            self._spawn(theirs, write_fd, listener)
            self.reader, self.writer = await asyncio.open_connection(sock=ours, limit=LINE_BYTES)
        except BaseException as error:
            ours.close()
            if self._child is None:
                os.close(read_fd)
            await self._end()
            if isinstance(error, OSError):
                raise InfraError(f"{self._argv[0]} can't be started: {error}", kind="program_start") from error
            raise
        finally:
            theirs.close()
            os.close(write_fd)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        await self._end()

    def file(self, name: str) -> bytes | None:
        """Read a file of its folder; None: there is no such file."""
        try:
            return (self.home / name).read_bytes()
        except OSError:
            return None

    def _spawn(self, channel: socket.socket, write_fd: int, listener: threading.Thread) -> None:
        home = str(self.home)
        env = {"PATH": PATH, "LANG": "C.UTF-8", "TZ": "UTC", **self._env, "HOME": home, "TMPDIR": home}
        started = start_supervised(
            self._argv, scratch=home, grace_s=GRACE_S, stdout=channel.fileno(), stderr=write_fd, cwd=home, env=env
        )
        listener.start()

        def at_end() -> None:
            listener.join(LISTEN_S)
            self._remove_home()

        self._child = Supervised(started, name="program-exit", grace_s=GRACE_S, at_end=at_end)

    async def _end(self) -> None:
        """End it; when cancelled, too, it has ended before this returns."""
        if self._child is None:
            self._remove_home()
            return
        end = asyncio.ensure_future(self._child.end())
        try:
            await asyncio.shield(end)
        except asyncio.CancelledError:
            await asyncio.wait([end])
            raise

    def _hold(self) -> Hold:
        try:
            return hold_scratch()
        except OSError as error:
            raise InfraError(f"{self._argv[0]} can't be started: {error}", kind="program_start") from error

    def _remove_home(self) -> None:
        if self._scratch is not None:
            shutil.rmtree(self.home, ignore_errors=True)
            self._scratch.release()

    def _listen(self, read_fd: int) -> None:
        with os.fdopen(read_fd, "rb", buffering=0) as stream:
            while data := stream.read(1 << 16):
                self._output_tail = (self._output_tail + data)[-OUTPUT_TAIL_BYTES:]
