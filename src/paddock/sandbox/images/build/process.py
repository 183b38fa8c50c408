"""Host commands of a build: run to the end, output merged, the whole group killed when the time is over or we are.

Output  the last `keep` bytes of both streams in the order written, as text; what came before is dropped as it comes.
Units   seconds. Errors: InfraError when the program is missing or the time is over; exit codes are the caller's.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from paddock.errors import InfraError

_CHUNK = 1 << 16
_WITH_UMASK = ("sh", "-c", 'umask 022; exec "$@"', "sh")
"""Not every event loop takes a umask."""
LOG_LINES = 25


class Finished(NamedTuple):
    """How a command ended."""

    code: int
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
) -> Finished:
    """Run `argv`; messages are in English, new files are readable by all. `env` is added to `inherited` (None: our
    environment)."""
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
    return Finished(code, output.decode(errors="replace"))


async def _tail(process: asyncio.subprocess.Process, keep: int) -> bytes:
    assert process.stdout is not None
    kept = bytearray()
    while chunk := await process.stdout.read(_CHUNK):
        kept += chunk
        if len(kept) > 2 * keep:
            del kept[:-keep]
    return bytes(kept[-keep:])


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
