"""OpenCode, as a class: its tools, its words, prompts in its manner.

Source  opencode 1.18.33 in run mode. Profiles: `default`, what it shows a model that it does not know; `gpt`, a patch
        tool in place of edit and write.
End     an answer without a call ends the run, also one that was cut; the calls of a cut answer are answered, as the
        program does.
"""

from typing import ClassVar

from pydantic import BaseModel

from paddock.harness.native import NativeHarness, Toolbox
from paddock.harness.oracles.opencode import turns_of
from paddock.harnesses.opencode.options import OpenCodeOptions
from paddock.harnesses.opencode.toolbox import OpenCodeToolbox
from paddock.types import Fix, JsonObject


class OpenCodeHarness(NativeHarness):
    TOOLBOX: ClassVar[type[Toolbox]] = OpenCodeToolbox
    OPTIONS: ClassVar[type[BaseModel] | None] = OpenCodeOptions
    CONCURRENT: ClassVar[bool] = True
    CUT_ENDS: ClassVar[bool] = False

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        return turns_of(fix, self.own_tools)
