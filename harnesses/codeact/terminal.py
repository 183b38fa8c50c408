"""The shell tool: one shell that lives as long as the rollout, and at most one command in it at a time.

Source   openhands-ai 0.62.0 and openhands-tools 1.58.0, measured. What stands in brackets is theirs, but the advice.
Waiting  without a limit of its own a command is left alone, still running, when it has written nothing for
         `no_change_timeout_s`; with one, when that is over. A call lasts no longer than `call_s` in any case. The next
         calls may poll (an empty command), type, or send `C-c`, `C-d`, `C-z`; a new command is refused.
Killed   what the sandbox did to a command, or refused to run, stands in its output.
Time     is measured in steps of `STEP_S`; no text holds a time but the limits themselves.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from paddock.harness import ShellOutput, ShellSession, Workspace
from paddock.harness.screen import render_screen
from paddock.harnesses.codeact.commands import split_commands
from paddock.harnesses.codeact.screen import cut_middle

STEP_S = 0.5
PREVIOUS = "[Below is the output of the previous command.]\n"
_KEYS = {
    "UP": b"\x1b[A",
    "DOWN": b"\x1b[B",
    "RIGHT": b"\x1b[C",
    "LEFT": b"\x1b[D",
    "HOME": b"\x1b[H",
    "END": b"\x1b[F",
    "PGUP": b"\x1b[5~",
    "PGDN": b"\x1b[6~",
    "TAB": b"\t",
    "ESC": b"\x1b",
    "BS": b"\x7f",
    "ENTER": b"\n",
}


class TerminalError(Exception):
    """Its text is the tool's answer."""


class TerminalBusyError(TerminalError):
    """A command runs, and another was given."""


class TerminalStyle(NamedTuple):
    """What differs between versions of the program."""

    no_change_timeout_s: float
    max_output_chars: int
    says_completed: bool
    """A line tells of the end of a command, beside the one with its exit code."""
    says_python: bool
    """A line tells which Python the shell would start; costs a second line in the shell."""
    one_command: bool
    """Two commands on lines of their own are refused."""


class Terminal:
    """One rollout's shell."""

    def __init__(self, workspace: Workspace, style: TerminalStyle, *, call_s: float | None) -> None:
        """`call_s`: the most that one call may take; None: no limit."""
        self._workspace = workspace
        self._style = style
        self._call_s = call_s
        self._shell: ShellSession | None = None
        self._runs = False

    async def run(self, command: str, *, is_input: bool = False, timeout_s: float | None = None) -> str:
        """Run a command, or type at the running one; return the program's text. Raises TerminalError."""
        command = command.strip()
        if not command or is_input:
            if not self._runs:
                what = "interact with" if command else "retrieve logs from"
                raise TerminalError(f"No previous running command to {what}.")
            return await self._again(command, timeout_s)
        shell = await self._opened()
        before = b""
        if self._runs:
            now = await shell.poll()
            if now.running:
                raise TerminalBusyError(self._busy(command, now))
            self._runs, before = False, now.output
        if command == "C-c":
            command = "printf '^C\\n'; (exit 130)"
        commands = split_commands(command) if self._style.one_command else [command]
        if len(commands) > 1:
            listed = "\n".join(f"({number}) {part}" for number, part in enumerate(commands, 1))
            raise TerminalError(
                "Cannot execute multiple commands at once.\n"
                "Please run each command separately OR chain them into a single command via && or ;\n"
                f"Provided commands:\n{listed}"
            )
        return await self._watched(lambda wait_s: shell.run(command, wait_s=wait_s), timeout_s, before=before)

    async def reset(self) -> None:
        """A new shell at the next command."""
        await self.close()

    async def close(self) -> None:
        shell, self._shell, self._runs = self._shell, None, False
        if shell is not None:
            await shell.close()

    async def _opened(self) -> ShellSession:
        if self._shell is None:
            self._shell = await self._workspace.shell()
        return self._shell

    async def _again(self, command: str, timeout_s: float | None) -> str:
        """Poll the running command, or type at it."""
        shell = await self._opened()
        if command == "C-c":
            return await self._watched(lambda _: shell.interrupt(), timeout_s, key=command, again=True)
        if not command:
            return await self._watched(lambda wait_s: shell.poll(wait_s=wait_s), timeout_s, again=True)
        control = len(command) == 3 and command.startswith("C-") and command[2].isalpha()
        data = bytes([ord(command[2].upper()) & 31]) if control else _KEYS.get(command, f"{command}\n".encode())
        key = command if control else None
        return await self._watched(lambda wait_s: shell.type(data, wait_s=wait_s), timeout_s, key=key, again=True)

    async def _watched(
        self,
        act: Callable[[float], Awaitable[ShellOutput]],
        timeout_s: float | None,
        *,
        before: bytes = b"",
        key: str | None = None,
        again: bool = False,
    ) -> str:
        """Call `act`, then wait until the command has ended or its waiting time is over."""
        now = asyncio.get_running_loop().time
        quiet_s = self._style.no_change_timeout_s if timeout_s is None else None
        limit_s = min((limit for limit in (timeout_s, self._call_s) if limit is not None), default=None)
        started = changed = now()
        seen = [await act(STEP_S if limit_s is None else min(STEP_S, limit_s))]
        self._runs = seen[-1].running
        if self._runs and seen[-1].refused:
            return PREVIOUS + self._shown(seen, before)
        while self._runs:
            changed = now() if seen[-1].output else changed
            left = [started + limit_s - now()] if limit_s is not None else []
            left += [changed + quiet_s - now()] if quiet_s is not None else []
            if min(left) <= 0:
                over = limit_s is not None and now() - started >= limit_s
                return self._left(seen, before, limit_s if over else None, again=again)
            seen.append(await (await self._opened()).poll(wait_s=min(STEP_S, *left)))
            self._runs = seen[-1].running
        return await self._ended(seen, before, key)

    def _left(self, seen: list[ShellOutput], before: bytes, over_s: float | None, *, again: bool) -> str:
        """Format the output of a command that still runs."""
        happened = f"no new output after {self._style.no_change_timeout_s:g} seconds"
        why = (
            f"The command has {happened}" if over_s is None else f"The command timed out after {float(over_s)} seconds"
        )
        output = self._shown(seen, before)
        return f"{PREVIOUS if again else ''}{output}\n[{why}. {self._advice()}]"

    async def _ended(self, seen: list[ShellOutput], before: bytes, key: str | None) -> str:
        last = seen[-1]
        lines = [self._shown(seen, before)]
        if self._style.says_completed:
            sent = f" CTRL+{key[2].upper()} was sent." if key else ""
            lines.append(f"[The command completed with exit code {last.exit_code}.{sent}]")
        if last.closed:
            lines.append("[The shell itself has ended. The next command starts a new one.]")
        lines.append(f"[Current working directory: {last.workdir}]")
        if self._style.says_python and not last.closed:
            lines += [f"[Python interpreter: {path}]" for path in await self._python()]
        lines.append(f"[Command finished with exit code {last.exit_code}]")
        return "\n".join(lines)

    async def _python(self) -> list[str]:
        """Which one the shell would start; empty: none."""
        done = await (await self._opened()).run("command -v python")
        return render_screen(done.output.decode(errors="replace")).split("\n")[:1] if done.output else []

    def _busy(self, command: str, now: ShellOutput) -> str:
        return (
            f"{PREVIOUS}{self._shown([now], b'')}\n"
            f'[Your command "{command}" is NOT executed. The previous command is still running - You CANNOT send new '
            "commands until the previous command is completed. By setting `is_input` to `true`, you can interact with "
            f"the current process: {self._advice()}]"
        )

    def _advice(self) -> str:
        return (
            "It is still running. Send an empty command '' to wait for more of its output, type at it or send "
            '"C-c", "C-z" or "C-d" with `is_input` set to `true` to end it before the next command, or set `timeout` '
            "from the start next time."
        )

    def _shown(self, seen: list[ShellOutput], before: bytes) -> str:
        whole = seen[-1]._replace(
            output=before + b"".join(piece.output for piece in seen),
            killed=tuple(kill for piece in seen for kill in piece.killed),
            timed_out=any(piece.timed_out for piece in seen),
        )
        return cut_middle(render_screen(whole.text()), self._style.max_output_chars)
