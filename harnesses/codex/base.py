"""What Codex's tools have in common: how a call is read, what is said to one that no tool can take, plans and patches.

Source  by trial of Codex 0.169.0 and 0.63.0; the options of a profile say where the two differ.
Wording a call of the wrong kind (a function's name with a custom tool's text, or the other way round) is "aborted".
"""

import re
from posixpath import join, normpath

from paddock.harness.native import Toolbox, ToolCall
from paddock.harnesses.codex.arguments import READ_BY
from paddock.harnesses.codex.patching import Applied, apply_patch
from paddock.harnesses.codex.reader import Reader, Wrong
from paddock.harnesses.codex.shapes import read_as
from paddock.tools import Malformed, Refusal
from paddock.types import Json, JsonObject

ABORTED = "aborted"
_TYPE_PROBLEMS = ("invalid type", "invalid value", "invalid length", "missing field", "unknown", "duplicate field")
_BARE_PATCH = (
    "apply_patch verification failed: patch detected without explicit call to apply_patch. "
    'Rerun as ["apply_patch", "<patch>"]'
)
_PATCH_COMMAND = re.compile(
    r"\s*(?:cd\s+(?P<folder>[^\s;&|<>'\"$`\\]+|'[^']*'|\"[^\"$`\\]*\")\s*&&\s*)?"
    r"(?:apply_patch|applypatch)\s*<<\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)[ \t]*\n"
    r"(?P<patch>.*?)\n(?P=end)\s*",
    re.DOTALL,
)
"""A script that does nothing but give a patch to the command: the tool takes it, as there is no such command."""


class CodexBase(Toolbox):
    def read_arguments(self, name: str, raw: str) -> JsonObject | Malformed:
        if self._is_custom(name):
            return Malformed("not_json", ABORTED)
        read: JsonObject = {}
        try:
            for shape in READ_BY[name]:
                read = read_as(shape, raw)
                if self.is_enough(name, read):
                    break
        except Wrong as wrong:
            reason: Refusal = "wrong_type" if wrong.text.startswith(_TYPE_PROBLEMS) else "not_json"
            place = Reader(raw).place(wrong.at or 0)
            detail = f"{wrong.text} at line {place.line} column {place.column}"
            if self.option("debug_errors") and name != "update_plan":
                text = wrong.text.replace("\\", "\\\\").replace('"', '\\"')
                detail = f'Error("{text}", line: {place.line}, column: {place.column})'
            return Malformed(reason, f"failed to parse function arguments: {detail}")
        return read

    def is_enough(self, name: str, read: JsonObject) -> bool:
        """Whether the call is answered by what was read, before the rest is."""
        return False

    def unknown_tool(self, call: ToolCall) -> str:
        return f"unsupported custom tool call: {call.shown}" if call.custom else f"unsupported call: {call.shown}"

    def bad_json(self, shown: str, raw: str, problem: Malformed) -> str:
        return problem.detail

    def bad_arguments(self, shown: str, raw: str, problem: Malformed) -> str:
        return problem.detail

    def _is_custom(self, name: str) -> bool:
        return any(tool["name"] == name and tool["type"] == "custom" for tool in self.profile.tools)

    async def t_update_plan(self, text: str | None = None, /, **_plan: Json) -> str:
        return "Plan updated" if text is None else ABORTED

    async def t_apply_patch(self, text: str | None = None, /, **arguments: str) -> str:
        if (text is None) == self._is_custom("apply_patch"):
            return ABORTED
        patch = arguments["input"] if text is None else text
        return self.of_patch(await apply_patch(self.workspace, patch, self.workspace.workdir))

    def of_patch(self, applied: Applied) -> str:
        if applied.end == "refused":
            return applied.text
        return self.answer(int(applied.end == "failed"), applied.text)

    def answer(self, exit_code: int, text: str) -> str:
        """How the profile's program tells a patch's end."""
        return f"Exit code: {exit_code}\nWall time: 0 seconds\nOutput:\n{text}"

    async def patched(self, cmd: str, folder: str) -> Applied | None:
        """What came of a patch that stands where a command should; None: it's a command."""
        if cmd.strip().startswith("*** Begin Patch"):
            return Applied(_BARE_PATCH, "refused")
        found = _PATCH_COMMAND.fullmatch(cmd)
        if found is None:
            return None
        inner = (found["folder"] or "").strip("'\"")
        return await apply_patch(self.workspace, found["patch"], normpath(join(folder, inner)))
