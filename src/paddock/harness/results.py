"""Results of commands, shell lines and programs in a workspace.

Law     a kill by the watchdog and a refusal by the blocklist are fields, not text in the output; `text` puts all of it
        in words for a model.
"""

from typing import NamedTuple

from paddock.sandbox.records import MemoryKill

REFUSED_CODE = 126
"""Exit code of a command that was refused, as shells have it for one that can't be run."""


class ExecOutput(NamedTuple):
    """A command that has ended. `output`: both streams, in order."""

    exit_code: int
    output: bytes
    timed_out: bool = False
    """Whether its time limit killed its process tree."""
    killed: tuple[MemoryKill, ...] = ()
    """Processes that were killed for memory meanwhile."""
    refused: str | None = None
    """The rule that refused it: nothing ran, and `output` says what to do instead."""

    def text(self) -> str:
        """The output for a model, with notices of kills and time limits."""
        return _text(self.output, self.killed, timed_out=self.timed_out)


class ShellOutput(NamedTuple):
    """A shell line that has ended, or what it has written so far."""

    exit_code: int | None
    """None: it still runs."""
    output: bytes
    """Output since the last result."""
    workdir: str
    """The shell's current folder."""
    timed_out: bool = False
    killed: tuple[MemoryKill, ...] = ()
    refused: str | None = None
    closed: bool = False
    """Whether the shell itself has ended; the next line opens another."""

    @property
    def running(self) -> bool:
        return self.exit_code is None

    def text(self) -> str:
        """The output for a model, with notices of kills and time limits."""
        return _text(self.output, self.killed, timed_out=self.timed_out)


class ProgramOutput(NamedTuple):
    """A program that has ended."""

    exit_code: int
    """As in a shell: 128 + n for signal n."""
    stdout: bytes
    """Its start and its end, where it was long."""
    stderr: bytes
    killed: tuple[MemoryKill, ...] = ()
    """Processes that were killed for the sandbox's memory limit meanwhile."""


def _text(output: bytes, killed: tuple[MemoryKill, ...], *, timed_out: bool) -> str:
    notices = [
        f"[`{it.command}` was killed: it held {it.memory_mib:.0f} MiB, and {it.limit_mib:.0f} MiB is all there is]"
        for it in killed
    ]
    if timed_out:
        notices.append("[time limit: the command and all that it had started were killed]")
    text = output.decode(errors="replace")
    return "\n".join([*([text.rstrip("\n")] if text else []), *notices]) if notices else text
