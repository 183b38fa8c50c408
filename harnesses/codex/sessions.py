"""One command of `exec_command` in a shell of its own, as Codex runs it.

Law     a new process of the shell each; its input is empty and its output a pipe, or both a terminal (`tty`). It is
        over when that process is: what it left running in the background is killed. Our own words go through the same
        pipe after its last, behind a mark that it can't know, so nothing that it writes passes for its end.
Units   seconds.
Errors  those of the workspace. A folder that is not there is `ExitReason.no_folder`.
"""

import re
import secrets
import shlex
import time
from typing import NamedTuple

from paddock.harness import ShellOutput, ShellSession, Workspace
from paddock.harnesses.codex.output import OutputBuffer, split_output

SLICE_S = 0.25
"""Seconds between two polls of a command that does not end: a child in the background may hold its output open."""
FIRST_SLICE_S = 0.05
INTERRUPT = "\x03"
KILLED_CODE = 137
_NO_FOLDER = {"2": "No such file or directory", "13": "Permission denied", "20": "Not a directory"}
_CODE = re.compile(rb"([cf])(\d+);")


class SessionCommand(NamedTuple):
    line: str
    folder: str
    shell: list[str]
    """Program and options before the line."""
    environment: dict[str, str]
    tty: bool


class SessionOutput(NamedTuple):
    """What a session wrote during one call, and whether it has ended."""

    buffer: OutputBuffer
    notices: str
    """The workspace's own words: kills, limits, refusals."""
    exit_code: int | None
    """None: it runs."""
    no_folder: str | None = None
    """Nothing ran: the system's words for what is wrong with the folder."""


class CommandSession:
    """A command, from its start to its end."""

    def __init__(self, shell: ShellSession, command: SessionCommand) -> None:
        self.tty = command.tty
        self._shell = shell
        self._mark = secrets.token_hex(12).encode()
        self._line = _line(command, self._mark.decode())
        self._held = b""
        self._over = False

    @classmethod
    async def open(cls, workspace: Workspace, command: SessionCommand) -> "CommandSession":
        return cls(await workspace.shell(), command)

    async def start(self, wait_s: float) -> SessionOutput:
        deadline = time.monotonic() + wait_s
        return await self._collect(await self._shell.run(self._line, wait_s=min(wait_s, FIRST_SLICE_S)), deadline)

    async def type(self, text: str, wait_s: float) -> SessionOutput:
        deadline = time.monotonic() + wait_s
        data = text.encode(errors="replace")
        return await self._collect(await self._shell.type(data, wait_s=min(wait_s, FIRST_SLICE_S)), deadline)

    async def poll(self, wait_s: float) -> SessionOutput:
        deadline = time.monotonic() + wait_s
        return await self._collect(await self._shell.poll(wait_s=min(wait_s, FIRST_SLICE_S)), deadline)

    async def close(self) -> None:
        await self._shell.close()

    async def _collect(self, result: ShellOutput, deadline: float) -> SessionOutput:
        buffer = OutputBuffer()
        notices: list[str] = []
        while True:
            if result.refused is not None:
                code = result.exit_code
                return SessionOutput(buffer, result.output.decode(errors="replace"), code)
            end = self._take(result, buffer)
            notices += [result._replace(output=b"").text()] if result.killed or result.timed_out else []
            if end is not None:
                return SessionOutput(buffer, "\n".join(notices), *end)
            left = deadline - time.monotonic()
            if left <= 0:
                return SessionOutput(buffer, "\n".join(notices), None)
            result = await self._shell.poll(wait_s=min(left, SLICE_S))

    def _take(self, result: ShellOutput, buffer: OutputBuffer) -> tuple[int, str | None] | None:
        """Take a result's output; return exit code and folder error at the command's end, None while it runs."""
        data = self._held + result.output
        if (parts := split_output(result.output)) is not None:
            buffer.add(self._held + parts.before, parts.gone_bytes)
            data = parts.after
        at = data.find(self._mark)
        match = _CODE.match(data, at + len(self._mark)) if at >= 0 else None
        if match is not None:
            buffer.add(data[:at])
            if match[1] == b"f":
                return 1, f"{_NO_FOLDER[match[2].decode()]} (os error {match[2].decode()})"
            return int(match[2]), None
        if not result.running:
            buffer.add(data)
            return result.exit_code or KILLED_CODE, None
        hold = len(data) - at if at >= 0 else _overlap(data, self._mark)
        self._held = data[len(data) - hold :]
        buffer.add(data[: len(data) - hold])
        return None


def _overlap(data: bytes, mark: bytes) -> int:
    """Return how many of the last bytes may be the start of the mark."""
    return next((size for size in range(min(len(mark) - 1, len(data)), 0, -1) if data.endswith(mark[:size])), 0)


def _line(command: SessionCommand, mark: str) -> str:
    """Build the line for the shell. The mark is followed by `c` and the exit code, or by `f` and an error number."""
    folder = shlex.quote(command.folder)
    where = f"[ -e {folder} ] || n=2; [ -d {folder} ] && n=13; printf %s {mark}f${{n:-20}}\\;"
    words = [f"{name}={shlex.quote(value)}" for name, value in command.environment.items()]
    run = " ".join([*words, shlex.join([*command.shell, command.line])])
    code = f"printf %s {mark}c$c\\;"
    # In a group of its own, which is killed as a whole when its first process has ended.
    if command.tty:
        # `fg` refuses with 1 what has ended before; `wait` tells its code, and 127 of what `fg` has waited for.
        late = 'd=$(jobs %%); wait "$p"; w=$?; [ $w = 127 -a "${d:6:8}" != "Exit 127" ] || c=$w'
        fg = f'fg >/dev/null; c=$?; if [ $c = 1 ]; then {late}; fi; kill -9 -- "-$p"'
        go = f"{run} <&5 5<&- 2>&3 3>&- & p=$!; {fg}; {code}"
        return f"(set -m; if cd -- {folder}; then {go}; else {where}; fi) 5<&0 3>&2 2>/dev/null"
    # ^C is passed on: the terminal's is for the group that reads from it.
    wait = 'while :; do i=; wait "$p"; c=$?; [ "$i" ] || break; done; kill -9 -- "-$p"'
    go = f"{run} </dev/null 2>&1 & p=$!; {wait}; {code}"
    body = f"set -m; trap 'i=1; kill -INT -- \"-$p\"' INT; if cd -- {folder}; then {go}; else {where}; fi"
    return f"{{ {body}; }} 2>/dev/null | (trap '' INT; exec cat)"
