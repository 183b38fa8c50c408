"""Scripts for bash: every word and value that is not this package's own stands between quotes of the shell.

Law     what a variable or a word held is what the job's process is given, whatever is in it: quotes, spaces, ends of
        lines, `$(...)`. An end of a script is a command that takes its place (`exec`), so that signals are the
        command's, or a step of SLURM, which SLURM signals itself.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Step(NamedTuple):
    """A command that a launch runs on this machine."""

    words: Sequence[str]
    folder: Path | None = None
    """Where; None: the working directory."""

    def text(self) -> str:
        """As a person could give it to a shell."""
        line = shlex.join(self.words)
        return f"(cd {shlex.quote(str(self.folder))} && {line})" if self.folder else line


class Script(NamedTuple):
    """What bash is given."""

    folder: Path
    """The working directory of its command."""
    exports: Mapping[str, str]
    lines: Sequence[str]
    """After these, ended by the command; quoted by whoever made them."""
    python_path: Sequence[Path] = ()
    """Before what `PYTHONPATH` has."""

    def text(self, title: str) -> str:
        """`title`: ours, of one line."""
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


def replaced_by(words: Sequence[str]) -> list[str]:
    """The end of a script: a command in its place."""
    return [f"exec {shlex.join(words)}"]


def step_of_slurm(words: Sequence[str]) -> list[str]:
    """The end of a script: a step, which has the job's signals from SLURM, while the shell waits for it."""
    return ["trap : TERM INT HUP", "status=0", f"{shlex.join(words)} || status=$?", 'exit "$status"']
