"""What came of a command, as a harness gets it: output, how it ended, and what was done to it.

Law     a kill by the watchdog and a refusal by the blocklist are fields, not text in the output; `text` puts all of it
        in words for a model.
"""

from typing import NamedTuple

from paddock.sandbox.records import MemoryKill

REFUSED_CODE = 126
"""Exit code of a command that was not run, as shells have it."""


class ExecOutput(NamedTuple):
    """A command's end: what it wrote to both streams, in order."""

    exit_code: int
    output: bytes
    timed_out: bool = False
    """Its time was over and its whole tree was killed."""
    killed: tuple[MemoryKill, ...] = ()
    """Processes that its memory limit cost meanwhile."""
    refused: str | None = None
    """The rule that refused it: nothing ran, and `output` says what to do instead."""

    def text(self) -> str:
        """For a model."""
        return _worded(self.output, self.killed, timed_out=self.timed_out)


class ShellOutput(NamedTuple):
    """How a line in a shell ended, or what it has written so far."""

    exit_code: int | None
    """None: it runs."""
    output: bytes
    """Since the last result."""
    workdir: str
    """Where the shell stands."""
    timed_out: bool = False
    killed: tuple[MemoryKill, ...] = ()
    refused: str | None = None
    closed: bool = False
    """The shell itself has ended; the next line opens another."""

    @property
    def running(self) -> bool:
        return self.exit_code is None

    def text(self) -> str:
        """For a model."""
        return _worded(self.output, self.killed, timed_out=self.timed_out)


class ProgramOutput(NamedTuple):
    """How a program ended."""

    exit_code: int
    """As a shell says it: 128 + n for signal n."""
    stdout: bytes
    """What was kept of it: its start and its end."""
    stderr: bytes
    killed: tuple[MemoryKill, ...] = ()
    """Processes that the sandbox's memory limit cost meanwhile."""


def _worded(output: bytes, killed: tuple[MemoryKill, ...], *, timed_out: bool) -> str:
    notices = [
        f"[`{one.command}` was killed: it held {one.memory_mib:.0f} MiB, and {one.limit_mib:.0f} MiB is all there is]"
        for one in killed
    ]
    if timed_out:
        notices.append("[time limit: the command and all that it had started were killed]")
    text = output.decode(errors="replace")
    return "\n".join([*([text.rstrip("\n")] if text else []), *notices]) if notices else text
