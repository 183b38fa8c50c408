"""Scripts for bash: every word and value that is not this package's own stands between quotes of the shell.

Law     what a variable or a word held is what the job's process is given, whatever is in it: quotes, spaces, ends of
        lines, `$(...)`. An end of a script is a command that takes its place (`exec`), so that signals are the
        command's, or a step of SLURM, which SLURM signals itself.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class LaunchStep(NamedTuple):
    """A command that a launch runs on this machine."""

    words: Sequence[str]
    folder: Path | None = None
    """The folder in which it runs; None: the working directory."""

    def text(self) -> str:
        """The command as a user could give it to a shell."""
        line = shlex.join(self.words)
        return f"(cd {shlex.quote(str(self.folder))} && {line})" if self.folder else line


class BashScript(NamedTuple):
    """A script for bash."""

    folder: Path
    """The working directory of its command."""
    exports: Mapping[str, str]
    lines: Sequence[str]
    """The lines after the exports, quoted already; the last is the command."""
    python_path: Sequence[Path] = ()
    """Folders that are put before those of `PYTHONPATH`."""

    def text(self, title: str) -> str:
        """The text of the script. `title`: one line, for its comment."""
        return "\n".join(
            [
                "#!/usr/bin/env bash",
                f"# {title}",
                "set -euo pipefail",
                f"cd {shlex.quote(str(self.folder))}",
                *(f"export {name}={shlex.quote(value)}" for name, value in self.exports.items()),
                *self._python_path(),
                *self.lines,
                "",
            ]
        )

    def _python_path(self) -> list[str]:
        if not self.python_path:
            return []
        ours = shlex.quote(":".join(map(str, self.python_path)))
        return [f'export PYTHONPATH={ours}"${{PYTHONPATH:+:$PYTHONPATH}}"']


def exec_lines(words: Sequence[str]) -> list[str]:
    """The end of a script: a command that replaces the shell."""
    return [f"exec {shlex.join(words)}"]


def slurm_job_lines(before: Sequence[str], step: str) -> list[str]:
    """The end of a script: a SLURM step, which gets the job's signals from SLURM while the shell waits for it. Both are
    quoted already."""
    return ["trap : TERM INT HUP", *before, "status=0", f"{step} || status=$?", 'exit "$status"']
