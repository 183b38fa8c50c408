"""The executors of Codex's tools: `exec_command` and `write_stdin`; the others are in `base` and `shell_tools`.

Source  by trial of Codex 0.169.0.
Fixed   where the program prints what is random or a clock, this prints the same each time: chunk ids and session ids
        are counted by the calls, and every wall time is 0.
Units   milliseconds and tokens (four bytes) in arguments and options; seconds elsewhere.
"""

from posixpath import basename, join, normpath

from paddock.harness import RunLimits, Workspace
from paddock.harness.native import ToolProfile
from paddock.harnesses.codex.base import ABORTED
from paddock.harnesses.codex.output import OutputBuffer, format_output, tokens
from paddock.harnesses.codex.sessions import INTERRUPT, CommandSession, SessionCommand, SessionOutput
from paddock.harnesses.codex.shell_tools import ShellTools
from paddock.types import JsonObject

FIRST_SESSION = 1000
_MIN_YIELD_MS, _MAX_YIELD_MS = 250, 30_000
_MIN_POLL_MS, _MAX_POLL_MS = 5_000, 300_000
_DEFAULT_YIELD_MS = 10_000
_ESCALATED = (
    "approval policy is Never; reject command — you cannot ask for escalated permissions "
    "if the approval policy is Never"
)
_NO_LOGIN = "login shell is disabled by config; omit `login` or set it to false."
_CLOSED = "write_stdin failed: stdin is closed for this session; rerun exec_command with tty=true to keep stdin open"


class CodexToolbox(ShellTools):
    def __init__(self, workspace: Workspace, limits: RunLimits, profile: ToolProfile) -> None:
        super().__init__(workspace, limits, profile)
        self._sessions: dict[int, CommandSession] = {}
        self._calls = 0
        self._shells: dict[str, str] = {}

    async def close(self) -> None:
        for session in list(self._sessions.values()):
            await session.close()
        self._sessions.clear()

    def is_enough(self, name: str, read: JsonObject) -> bool:
        if name == "write_stdin":
            return read["session_id"] not in self._sessions
        return read.get("environment_id") is not None

    async def t_exec_command(self, text: str | None = None, /, **arguments: object) -> str:
        if text is not None:
            return ABORTED
        self._calls += 1
        return await self._exec(self._calls, **arguments)  # type: ignore[arg-type]  # typed by `arguments`

    async def _exec(
        self,
        number: int,
        cmd: str = "",
        *,
        environment_id: str | None = None,
        workdir: str | None = None,
        shell: str | None = None,
        login: bool | None = None,
        tty: bool = False,
        yield_time_ms: int = _DEFAULT_YIELD_MS,
        max_output_tokens: int | None = None,
        sandbox_permissions: str | None = None,
        **_: object,
    ) -> str:
        """`number`: of the call, given before anything is waited for: calls of one turn run side by side."""
        if environment_id is not None:
            return f"unknown turn environment id `{environment_id}`"
        if sandbox_permissions not in (None, "use_default"):
            return _ESCALATED
        if login and not self.option("allow_login_shell"):
            return _NO_LOGIN
        folder = normpath(join(self.workspace.workdir, workdir or ""))
        if "\0" in folder:
            return f"'{workdir}' is invalid on 'linux'"
        applied = await self.patch_in_command(cmd, folder)
        if applied is not None:
            return (
                "Wall time: 0.0000 seconds\nOutput:\n" if applied.end != "refused" else ""
            ) + self.format_patch_result(applied)
        if "\0" in cmd:
            return _not_created("nul byte found in provided data")
        command = SessionCommand(
            cmd, folder, await self._shell(shell, login=bool(login)), self.option("environment"), tty
        )
        session = await CommandSession.open(self.workspace, command)
        self._sessions[FIRST_SESSION + number] = session
        output = await session.start(self._wait_s(yield_time_ms, _MIN_YIELD_MS, _MAX_YIELD_MS))
        return await self._format_result(number, FIRST_SESSION + number, output, max_output_tokens)

    async def t_write_stdin(self, text: str | None = None, /, **arguments: object) -> str:
        if text is not None:
            return ABORTED
        self._calls += 1
        return await self._write(self._calls, **arguments)  # type: ignore[arg-type]  # typed by `arguments`

    async def _write(
        self,
        number: int,
        session_id: int,
        chars: str = "",
        yield_time_ms: int = 0,
        max_output_tokens: int | None = None,
    ) -> str:
        session = self._sessions.get(session_id)
        if session is None:
            return f"write_stdin failed: Unknown process id {session_id}"
        if chars and not session.tty and chars != INTERRUPT:
            return _CLOSED
        if chars:
            output = await session.type(chars, self._wait_s(yield_time_ms, _MIN_YIELD_MS, _MAX_YIELD_MS))
        else:
            output = await session.poll(self._wait_s(yield_time_ms, _MIN_POLL_MS, _MAX_POLL_MS))
        return await self._format_result(number, session_id, output, max_output_tokens)

    async def _shell(self, wanted: str | None, *, login: bool) -> list[str]:
        """Return the shell that runs a command; a shell that the program does not know is taken for plain `sh`."""
        name = "bash" if wanted is None else basename(wanted)
        if name not in self._shells:
            names = [name, "sh"] if name in ("bash", "zsh") else ["sh"]
            look = "; ".join(f"command -v {shell} && exit" for shell in names)
            lookup = await self.workspace.exec(["sh", "-c", look])
            self._shells[name] = lookup.output.decode(errors="replace").strip() or "/bin/sh"
        return [self._shells[name], "-lc" if login else "-c"]

    def _wait_s(self, wanted_ms: int, low_ms: int, high_ms: int) -> float:
        wait_s = min(max(wanted_ms, low_ms), high_ms) / 1000
        return wait_s if self.limits.tool_s is None else min(wait_s, self.limits.tool_s)

    async def _format_result(
        self, number: int, session_id: int, output: SessionOutput, max_output_tokens: int | None
    ) -> str:
        if output.exit_code is not None and session_id in self._sessions:
            await self._sessions.pop(session_id).close()
        if output.no_folder is not None:
            return _not_created(output.no_folder)
        state = f"exited with code {output.exit_code}"
        if output.exit_code is None:
            state = f"running with session ID {session_id}"
        return (
            f"Chunk ID: {number:06x}\nWall time: 0.0000 seconds\nProcess {state}\n"
            f"Original token count: {tokens(output.buffer.total_bytes)}\nOutput:\n"
            + self._shown(output.buffer, max_output_tokens)
            + output.notices
        )

    def _shown(self, buffer: OutputBuffer, wanted: int | None) -> str:
        most = self.option("max_output_tokens")
        return format_output(buffer, most if wanted is None else min(wanted, most))


def _not_created(why: str) -> str:
    text = f"Failed to create unified exec process: {why}"
    return f'exec_command failed: CreateProcess {{ message: "Rejected(\\"{text}\\")" }}'
