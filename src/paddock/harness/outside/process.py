"""The process of a program outside: started, spoken to over its channel, and gone with all that it started.

Law     a keeper of its own session stands over it (`paddock.harness.programs.children.KEEPER`): when its stdin ends,
        as we end in whatever way, all that the program started is killed, and its folder is removed. Where both are
        killed the next program removes it (`paddock.temporary`).
Env     `PATH`, `HOME` and `TMPDIR` (the folder), `LANG`, `TZ`, and what the plugin adds: nothing else of ours.
Output  both streams of the program are one; its end is kept for errors.
Errors  InfraError "program_start": it can't be started.
"""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from paddock.errors import InfraError
from paddock.harness.programs.children import GRACE_S, KEEPER
from paddock.temporary import Hold, hold_scratch

LINE_BYTES = 1 << 28
"""Longest line of the channel: a file in base64."""
KEPT_BYTES = 1 << 14
KILL_S = 10.0
"""Seconds beyond its grace that the keeper is waited for before it is killed."""
LISTEN_S = 5.0
"""Seconds for the last of its output, when it has ended."""
PATH = "/usr/local/bin:/usr/bin:/bin"


class OutsideProcess:
    """`async with` starts it, and is left when nothing of it is left."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def __init__(self, argv: Sequence[str | Path], env: Mapping[str, str]) -> None:
        self.home = Path()
        """Its folder, while it lives."""
        self.code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """It has ended, and nothing is left of it."""
        self._held: Hold | None = None
        self._argv = [str(word) for word in argv]
        self._env = env
        self._said = b""
        self._pid = 0
        self._lifeline = -1

    @property
    def said(self) -> str:
        """The end of what it wrote."""
        return self._said.decode(errors="replace").strip()

    async def __aenter__(self) -> Self:
        self._held = self._hold()
        self.home = self._held.folder
        ours, theirs = socket.socketpair()
        said, saying = os.pipe()
        try:
            listener = threading.Thread(target=self._listen, args=(said,), name="program-said", daemon=True)
            self._spawn(theirs, saying, listener)
            self.reader, self.writer = await asyncio.open_connection(sock=ours, limit=LINE_BYTES)
        except BaseException as error:
            ours.close()
            if not self._pid:
                os.close(said)
            await self._end()
            if isinstance(error, OSError):
                raise InfraError(f"{self._argv[0]} can't be started: {error}", kind="program_start") from error
            raise
        finally:
            theirs.close()
            os.close(saying)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        await self._end()

    def file(self, name: str) -> bytes | None:
        """What stands in a file of its folder; None: there is none."""
        try:
            return (self.home / name).read_bytes()
        except OSError:
            return None

    def _spawn(self, channel: socket.socket, saying: int, listener: threading.Thread) -> None:
        stdin, lifeline = os.pipe()
        home = str(self.home)
        env = {"PATH": PATH, "LANG": "C.UTF-8", "TZ": "UTC", **self._env, "HOME": home, "TMPDIR": home}
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(KEEPER), str(GRACE_S), home, *self._argv],
                stdin=stdin,
                stdout=channel.fileno(),
                stderr=saying,
                cwd=home,
                env=env,
                start_new_session=True,
            )
        except OSError:
            os.close(lifeline)
            raise
        finally:
            os.close(stdin)
        self._pid, self._lifeline = process.pid, lifeline
        loop = asyncio.get_running_loop()
        # A thread, so that it works on any loop, and is done though the loop is closed meanwhile.
        listener.start()
        threading.Thread(target=self._wait, args=(process, listener, loop), name="program-exit", daemon=True).start()

    async def _end(self) -> None:
        """Cancelled: it ends all the same."""
        if self._lifeline < 0:
            self._remove_home()
            return
        lifeline, self._lifeline = self._lifeline, -1
        os.close(lifeline)
        ending = asyncio.ensure_future(self._surely())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait([ending])
            raise

    async def _surely(self) -> None:
        done, _ = await asyncio.wait([self.code], timeout=GRACE_S + KILL_S)
        if not done:
            with suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)
            await self.code

    def _wait(
        self, process: "subprocess.Popen[bytes]", listener: threading.Thread, loop: asyncio.AbstractEventLoop
    ) -> None:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a keeper that was killed leaves its group
        code = process.wait()
        listener.join(LISTEN_S)
        self._remove_home()
        with suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(self._ended, code if code >= 0 else 128 - code)

    def _hold(self) -> Hold:
        try:
            return hold_scratch()
        except OSError as error:
            raise InfraError(f"{self._argv[0]} can't be started: {error}", kind="program_start") from error

    def _remove_home(self) -> None:
        if self._held is not None:
            shutil.rmtree(self.home, ignore_errors=True)
            self._held.release()

    def _ended(self, code: int) -> None:
        if not self.code.done():
            self.code.set_result(code)

    def _listen(self, said: int) -> None:
        with os.fdopen(said, "rb", buffering=0) as stream:
            while data := stream.read(1 << 16):
                self._said = (self._said + data)[-KEPT_BYTES:]
