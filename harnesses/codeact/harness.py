"""CodeAct of OpenHands: one shell, one editor, calls one after the other, until `finish`.

Source  openhands-ai 0.62.0 run headless (`default`), the same without thoughts and task list (`minimal`), and the tools
        of openhands-sdk 1.58.0 (`openhands_1_58`).
Ends    with `finish`; an answer without a call is told to go on, at most `max_nudges` times, and then ends the run.
Cut     an answer that was cut at its limit does not end the run: its half call is answered as bad JSON.
"""

from typing import ClassVar

from pydantic import BaseModel

from paddock.harness.native import NativeHarness, NativeSettings, Toolbox
from paddock.harness.oracles.codeact import turns_of
from paddock.harnesses.codeact.toolbox import CodeActOptions, CodeActToolbox
from paddock.types import Fix, JsonObject

NUDGE = (
    "There is nobody here to answer. Go on by yourself, in the way that you think best, and call a tool in each of "
    "your answers. When you are sure that the task is solved, or that you can't solve it, say so with the tool that "
    "ends the task."
)
EMPTY = "Your last answer said nothing and called no tool. Call one; where the task is done, the one that ends it."


class CodeActHarness(NativeHarness):
    TOOLBOX: ClassVar[type[Toolbox]] = CodeActToolbox
    OPTIONS: ClassVar[type[BaseModel] | None] = CodeActOptions
    CONCURRENT: ClassVar[bool] = False
    CUT_ENDS: ClassVar[bool] = False

    def __init__(self, settings: NativeSettings) -> None:
        super().__init__(settings)
        self._options = CodeActOptions.model_validate(self.profile.options)
        self._nudges = 0

    def without_call(self, text: str) -> str | None:
        wanted = self._options.nudge == "always" or (self._options.nudge == "empty" and not text.strip())
        if not wanted or self._nudges >= self._options.max_nudges:
            return None
        self._nudges += 1
        return NUDGE if text.strip() else EMPTY

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        """A known fix, made with this profile's tools."""
        names = self.profile.tool_names
        return turns_of(
            fix,
            terminal="terminal" if "terminal" in names else "execute_bash",
            editor="file_editor" if "file_editor" in names else "str_replace_editor",
        )
