"""The tools of Codex 0.63: `shell` runs a program with its arguments, `shell_command` a line in a login shell.

Source  by trial of Codex 0.63.0. A command runs to its end or its time limit; there are no sessions. Wall times are 0.
Shapes  `shell`, and `apply_patch` as a function, answer with JSON: `{"output", "metadata": {"exit_code",
        "duration_seconds"}}`; `shell_command` with a heading.
"""

import json
import secrets
import shlex
from collections.abc import Sequence
from posixpath import join, normpath

from paddock.harness import ExecOutput
from paddock.harnesses.codex.apply_patch import PatchResult
from paddock.harnesses.codex.base import ABORTED, CodexBase
from paddock.harnesses.codex.output import format_older_output, truncate
from paddock.types import JsonObject

DEFAULT_TIMEOUT_MS = 10_000
TIMED_OUT_CODE = 124
_ESCALATED = (
    "approval policy is Never; reject command — you should not ask for escalated permissions "
    "if the approval policy is Never"
)
_NOT_FOUND = 'execution error: Io(Os { code: 2, kind: NotFound, message: "No such file or directory" })'
_APPLY = ("apply_patch", "applypatch")


class ShellTools(CodexBase):
    async def t_shell(self, text: str | None = None, /, **arguments: object) -> str:
        if text is not None:
            return ABORTED
        return await self._shell_argv(**arguments)  # type: ignore[arg-type]  # typed by `arguments`

    async def t_shell_command(self, text: str | None = None, /, **arguments: object) -> str:
        if text is not None:
            return ABORTED
        return await self._shell_line(**arguments)  # type: ignore[arg-type]  # typed by `arguments`

    async def _shell_argv(self, command: list[str], workdir: str | None = None, **more: object) -> str:
        if not command:
            return "command args are empty"
        applied = await self._given_patch(command, self._folder(workdir))
        if applied is not None:
            return self._of_shell_patch(applied)
        done = await self._run(command, workdir, **more)  # type: ignore[arg-type]  # typed by `arguments`
        if isinstance(done, str):
            return done
        timed_out = f"command timed out after {_limit_ms(more)} milliseconds\n" if done.timed_out else ""
        shown = format_older_output(timed_out + _text(done), self.option("max_output_tokens"))
        heading = f"{shown.heading}\n" if shown.heading else ""
        return self._as_json(_code(done), heading + shown.text)

    async def _shell_line(self, command: str, workdir: str | None = None, **more: object) -> str:
        applied = await self.patch_in_command(command, self._folder(workdir))
        if applied is not None:
            return self._of_shell_patch(applied)
        done = await self._run(["bash", "-lc", command], workdir, **more)  # type: ignore[arg-type]  # as above
        if isinstance(done, str):
            return done
        shown = format_older_output(_text(done), self.option("max_output_tokens"))
        return f"Exit code: {_code(done)}\nWall time: 0 seconds\n{shown.heading}Output:\n{shown.text}"

    async def _run(
        self,
        command: Sequence[str],
        workdir: str | None,
        *,
        timeout_ms: int | None = None,
        with_escalated_permissions: bool | None = None,
        **_: object,
    ) -> ExecOutput | str:
        """Run a command; a text: why it was not started."""
        if with_escalated_permissions:
            return _ESCALATED
        if any("\0" in word for word in (*command, workdir or "")):
            return 'execution error: Io(Error { kind: InvalidInput, message: "nul byte found in provided data" })'
        mark = secrets.token_hex(12)
        folder = shlex.quote(self._folder(workdir))
        missing = f"{{ printf {mark}; exit 1; }}"
        program = shlex.quote(command[0])
        line = (
            f"cd -- {folder} 2>/dev/null && command -v -- {program} >/dev/null || {missing}; exec {shlex.join(command)}"
        )
        limit_s = (timeout_ms or DEFAULT_TIMEOUT_MS) / 1000
        limit_s = limit_s if self.limits.tool_s is None else min(limit_s, self.limits.tool_s)
        done = await self.workspace.exec(["sh", "-c", line], timeout_s=limit_s)
        return _NOT_FOUND if done.output == mark.encode() else done

    async def _given_patch(self, command: Sequence[str], folder: str) -> PatchResult | None:
        if len(command) == 2 and command[0] in _APPLY:
            return await self.patch_in_command(f"apply_patch <<'EOF'\n{command[1]}\nEOF", folder)
        if len(command) == 3 and command[0].rpartition("/")[2] in ("bash", "sh", "zsh") and command[1] in ("-lc", "-c"):
            return await self.patch_in_command(command[2], folder)
        return None

    def answer(self, exit_code: int, text: str) -> str:
        return self._as_json(exit_code, text) if self.option("json_results") else super().answer(exit_code, text)

    def _folder(self, workdir: str | None) -> str:
        return normpath(join(self.workspace.workdir, workdir or ""))

    def _of_shell_patch(self, applied: PatchResult) -> str:
        return applied.text if applied.end == "refused" else self._as_json(int(applied.end == "failed"), applied.text)

    def _as_json(self, exit_code: int, text: str) -> str:
        payload: JsonObject = {"output": text, "metadata": {"exit_code": exit_code, "duration_seconds": 0.0}}
        whole = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
        return truncate(whole, self.option("max_output_tokens")).text


def _limit_ms(more: dict[str, object]) -> object:
    return more.get("timeout_ms") or DEFAULT_TIMEOUT_MS


def _text(done: ExecOutput) -> str:
    return done._replace(timed_out=False).text()


def _code(done: ExecOutput) -> int:
    return TIMED_OUT_CODE if done.timed_out else done.exit_code
