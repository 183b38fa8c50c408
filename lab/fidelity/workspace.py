"""A workspace without a sandbox: every command prints as much as the scenario says, and files are in memory.

Law     nothing runs on this machine. What a command prints depends on the file of the scenario that it names alone.
"""

import re
from collections.abc import Mapping, Sequence

from paddock.harness import ExecOutput, ShellOutput
from paddock.harness.contract import ShellSession
from paddock.lab.fidelity.scenarios import Scenario
from paddock.testing.native import WorkspaceWithoutPrograms

WORKDIR = "/testbed"
_FILE = re.compile(r"notes-(\d+)\.txt")
_LINE = "{number:>5}: the sum of “a” and «b» is\t{number}  (naïve, 日本語)\n"


def command_output(scenario: Scenario, text: str) -> str:
    """What the command in `text` prints; empty where it names no file of the scenario."""
    match = _FILE.search(text)
    chars = [turn.output_chars for turn in scenario.turns for _ in turn.calls]
    if match is None or int(match[1]) >= len(chars):
        return ""
    lines = (_LINE.format(number=int(match[1]) + nth) for nth in range(chars[int(match[1])] // len(_LINE) + 1))
    return "".join(lines)


class ScriptedWorkspace(WorkspaceWithoutPrograms):
    """The workspace of one run."""

    workdir = WORKDIR

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._files: dict[str, bytes] = {}

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> ExecOutput:
        return ExecOutput(0, command_output(self._scenario, " ".join(argv)).encode())

    async def read(self, path: str) -> bytes:
        if path not in self._files:
            raise FileNotFoundError(path)
        return self._files[path]

    async def write(self, path: str, data: bytes) -> None:
        self._files[path] = data

    async def shell(self) -> ShellSession:
        return _ScriptedShell(self._scenario)


class _ScriptedShell:
    """A shell whose lines end at once."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario

    async def run(self, line: str, *, timeout_s: float | None = None, wait_s: float | None = None) -> ShellOutput:
        return ShellOutput(1, command_output(self._scenario, line).encode(), WORKDIR)

    async def poll(self, *, wait_s: float = 0.0) -> ShellOutput:
        return ShellOutput(1, b"", WORKDIR)

    async def type(self, data: bytes, *, wait_s: float = 0.0) -> ShellOutput:
        return ShellOutput(1, b"", WORKDIR)

    async def interrupt(self) -> ShellOutput:
        return ShellOutput(1, b"", WORKDIR)

    async def close(self) -> None:
        return
