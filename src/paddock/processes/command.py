"""Commands of this machine that are run to their end.

`run` waits on the event loop, and kills the command's group when its time is over or the caller is cancelled.
`run_supervised` blocks, and has the supervisor over the command: nothing of it is left, however we end.
Output  the end of both streams, in the order written, as text; what came before is dropped.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from paddock.errors import InfraError
from paddock.processes.reap import reap
from paddock.processes.supervised import start_supervised

_CHUNK = 1 << 16
_WITH_UMASK = ("sh", "-c", 'umask 022; exec "$@"', "sh")
"""Not every event loop takes a umask."""
LOG_LINES = 25
GRACE_S = 0.5
"""Of a supervised command, between the signal to end and the kill."""


class CommandResult(NamedTuple):
    """How a command ended."""

    code: int | None
    """None: its time was over."""
    output: str

    @property
    def tail(self) -> str:
        """Its last lines, for an error."""
        return "\n".join(self.output.strip().splitlines()[-LOG_LINES:])


async def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    inherited: Mapping[str, str] | None = None,
    timeout_s: float = 900.0,
    keep: int = 1 << 20,
    pass_fds: Sequence[int] = (),
) -> CommandResult:
    """Run `argv`; messages are in English, new files are readable by all. `env` is added to `inherited` (None: our
    environment); `keep` are bytes of output. InfraError where the program is missing or its time is over; exit codes
    are the caller's."""
    program = shutil.which(argv[0])
    if program is None:
        raise InfraError(f"{argv[0]} is not installed", kind="program_missing", retryable=False)
    process = await asyncio.create_subprocess_exec(
        *_WITH_UMASK,
        program,
        *argv[1:],
        cwd=cwd,
        env={**(os.environ if inherited is None else inherited), "LC_ALL": "C.UTF-8", **(env or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        pass_fds=pass_fds,
    )
    try:
        async with asyncio.timeout(timeout_s):
            output = await _tail(process, keep)
            code = await process.wait()
    except TimeoutError:
        raise InfraError(f"{argv[0]} did not end in {timeout_s:.0f} s", kind="build_timeout") from None
    finally:
        await _kill(process)
    return CommandResult(code, output.decode(errors="replace"))


def run_supervised(
    argv: Sequence[str | Path],
    *,
    timeout_s: float,
    env: Mapping[str, str],
    cwd: Path | None = None,
    own_home: bool = False,
    pass_fds: Sequence[int] = (),
    keep: int = 1 << 16,
) -> CommandResult:
    """Run `argv`, with a TMPDIR of its own that is gone afterwards; `own_home`: that is its HOME, too. `keep` are bytes
    of output."""
    scratch = tempfile.mkdtemp(prefix="paddock-")
    env = {**env, "TMPDIR": scratch, **({"HOME": scratch} if own_home else {})}
    with tempfile.TemporaryFile() as log:
        try:
            process, lifeline = start_supervised(
                argv,
                scratch=scratch,
                grace_s=GRACE_S,
                stdout=log,
                stderr=log,
                cwd=cwd or scratch,
                env=env,
                umask=0o022,
                pass_fds=pass_fds,
            )
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        try:
            code: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            os.close(lifeline)
            process.wait()
        log.seek(max(0, log.seek(0, os.SEEK_END) - keep))
        return CommandResult(code, log.read().decode(errors="replace"))


async def _tail(process: asyncio.subprocess.Process, keep: int) -> bytes:
    assert process.stdout is not None
    tail = bytearray()
    while chunk := await process.stdout.read(_CHUNK):
        tail += chunk
        if len(tail) > 2 * keep:
            del tail[:-keep]
    return bytes(tail[-keep:])


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await reap(process)
