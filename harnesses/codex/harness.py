"""Codex as a native harness: its tools, its prompts' manner and its loop, without its program.

Source  Codex 0.169.0 in classic mode (profile `default`); 0.63.0 (`codex_0_63`, `gpt_oss`). `functions` is the default
        for engines without custom tools.
Ends    an answer that calls nothing; an answer that was cut at its limit, as the program's turn fails with it.
"""

from typing import ClassVar

from pydantic import BaseModel

from paddock.harness.native import NativeHarness, Toolbox
from paddock.harness.oracles.codex import turns_of
from paddock.harnesses.codex.options import CodexOptions
from paddock.harnesses.codex.toolbox import CodexToolbox
from paddock.types import Fix, JsonObject


class CodexHarness(NativeHarness):
    TOOLBOX: ClassVar[type[Toolbox]] = CodexToolbox
    OPTIONS: ClassVar[type[BaseModel] | None] = CodexOptions
    CONCURRENT: ClassVar[bool] = True
    CUT_ENDS: ClassVar[bool] = True

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        return turns_of(fix, {str(tool["name"]): str(tool["type"]) for tool in self.profile.tools})
