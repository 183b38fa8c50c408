"""Commands under the supervisor: when we end, in whatever way, nothing of them is left.

Law     the supervisor holds the other end of a pipe, the lifeline. When it closes, as we close it or end, the command's
        group is told to end and what is left after a grace is killed (`supervisor.py`). A supervisor that is killed
        leaves its group to `Child`.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from paddock.linux import require_supervision
from paddock.processes.child import Child

SUPERVISOR = Path(__file__).with_name("supervisor.py")
KILL_S = 5.0
"""Seconds beyond its grace that the supervisor is waited for before it is killed."""


class LinkedProcess(NamedTuple):
    """A command that was started. The supervisor leads its group."""

    process: "subprocess.Popen[bytes]"
    lifeline: int
    """A descriptor, which the caller closes to end the command."""


class Supervised(Child):
    """A command under the supervisor."""

    def __init__(
        self, started: LinkedProcess, *, name: str, grace_s: float, at_end: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(started.process, name=name, at_end=at_end)
        self._lifeline: int | None = started.lifeline
        self._grace_s = grace_s

    async def end(self) -> None:
        """End it, and wait until nothing of it is left. Cancelled: it ends all the same. Again: nothing happens."""
        lifeline, self._lifeline = self._lifeline, None
        if lifeline is not None:
            os.close(lifeline)
            await self.wait_or_kill(self._grace_s + KILL_S)


def supervised_argv(
    argv: Sequence[str | Path], *, scratch: str | Path, grace_s: float, passes_stdin: bool = False
) -> list[str]:
    """The command line of the supervisor over `argv`. Its stdin is the lifeline; `scratch` is a folder that it removes
    at the end; `grace_s` are the seconds between the signal to end and the kill. `passes_stdin`: its stdin is that of
    `argv` too, which has `grace_s` to end by itself when it is closed. ConfigError where the system is not Linux."""
    require_supervision()
    options = ["--stdin"] if passes_stdin else []
    return [sys.executable, "-I", "-S", str(SUPERVISOR), *options, str(grace_s), str(scratch), *map(str, argv)]


def start_supervised(
    argv: Sequence[str | Path],
    *,
    scratch: str | Path,
    grace_s: float,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
    env: Mapping[str, str],
    cwd: str | Path | None = None,
    umask: int = -1,
    pass_fds: Sequence[int] = (),
) -> LinkedProcess:
    """Start `argv` under the supervisor; the other arguments are those of `subprocess.Popen`. OSError where it can't be
    started."""
    theirs, ours = os.pipe()
    try:
        process = subprocess.Popen(
            supervised_argv(argv, scratch=scratch, grace_s=grace_s),
            stdin=theirs,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=env,
            umask=umask,
            pass_fds=pass_fds,
            start_new_session=True,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return LinkedProcess(process, ours)
