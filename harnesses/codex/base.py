"""What Codex's tools share: how calls are read, the answers to calls that no tool can take, plans and patches.

Source  by trial of Codex 0.169.0 and 0.63.0; the options of a profile say where the two differ.
Wording a call of the wrong kind (a function's name with a custom tool's text, or the other way round) is "aborted". Bad
        arguments are answered with the program's heading and a plain sentence, not with its parser's words.
"""

import re
from posixpath import join, normpath

from paddock.harness.native import RawToolCall, Toolbox
from paddock.harnesses.codex.apply_patch import PatchResult, apply_patch
from paddock.harnesses.codex.arguments import MODELS, read_as
from paddock.tools import InvalidCall, decode_json
from paddock.types import Json, JsonObject

ABORTED = "aborted"
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
    def read_arguments(self, name: str, raw: str) -> JsonObject | InvalidCall:
        if self._is_custom(name):
            return InvalidCall("not_json", ABORTED)
        value = decode_json(raw, unique=True)
        if isinstance(value, InvalidCall):
            return value
        read: JsonObject | InvalidCall = {}
        for model in MODELS[name]:
            read = read_as(model, value)
            if isinstance(read, InvalidCall) or self.is_enough(name, read):
                break
        return read

    def is_enough(self, name: str, read: JsonObject) -> bool:
        """Whether the call can be answered by the arguments read so far."""
        return False

    def unknown_tool(self, call: RawToolCall) -> str:
        return f"unsupported custom tool call: {call.shown}" if call.custom else f"unsupported call: {call.shown}"

    def bad_json(self, shown: str, raw: str, problem: InvalidCall) -> str:
        return ABORTED if problem.detail == ABORTED else self.bad_arguments(shown, raw, problem)

    def bad_arguments(self, shown: str, raw: str, problem: InvalidCall) -> str:
        return f"failed to parse function arguments: {shown}: {problem.detail}"

    def _is_custom(self, name: str) -> bool:
        return any(tool["name"] == name and tool["type"] == "custom" for tool in self.profile.tools)

    async def t_update_plan(self, text: str | None = None, /, **_plan: Json) -> str:
        return "Plan updated" if text is None else ABORTED

    async def t_apply_patch(self, text: str | None = None, /, **arguments: str) -> str:
        if (text is None) == self._is_custom("apply_patch"):
            return ABORTED
        patch = arguments["input"] if text is None else text
        return self.format_patch_result(await apply_patch(self.workspace, patch, self.workspace.workdir))

    def format_patch_result(self, applied: PatchResult) -> str:
        if applied.end == "refused":
            return applied.text
        return self.answer(int(applied.end == "failed"), applied.text)

    def answer(self, exit_code: int, text: str) -> str:
        """Format the end of a patch as the profile's program does."""
        return f"Exit code: {exit_code}\nWall time: 0 seconds\nOutput:\n{text}"

    async def patch_in_command(self, cmd: str, folder: str) -> PatchResult | None:
        """Apply a patch that stands where a command should; None: it is a command."""
        if cmd.strip().startswith("*** Begin Patch"):
            return PatchResult(_BARE_PATCH, "refused")
        match = _PATCH_COMMAND.fullmatch(cmd)
        if match is None:
            return None
        inner = (match["folder"] or "").strip("'\"")
        return await apply_patch(self.workspace, match["patch"], normpath(join(folder, inner)))
