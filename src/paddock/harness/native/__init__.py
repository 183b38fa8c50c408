"""Harnesses as Python classes: one loop over the Responses API, a toolbox, and a profile of what the model is shown.

Parts   `NativeHarness` (the loop), `Toolbox` (executors, a method per tool), `ToolProfile` (tools and templates, as
        data), `History` and `ContextPolicy` (what of it the model sees), `changes` (a known fix as edits of text).
Class   a new harness derives from `NativeHarness` and names its toolbox; what the real program answers to a call that
        no tool can take is its toolbox's.
"""

from paddock.harness.native.fixes import FileFix, Replacement, changes
from paddock.harness.native.history import ContextPolicy, FullContext, History
from paddock.harness.native.loop import NativeHarness
from paddock.harness.native.profile import ToolProfile, load_profile
from paddock.harness.native.settings import NativeSettings
from paddock.harness.native.tool_calls import StepResults
from paddock.harness.native.toolbox import RawToolCall, Toolbox, ToolResult
from paddock.harness.native.turn_writer import TurnWriter

__all__ = [
    "ContextPolicy",
    "FileFix",
    "FullContext",
    "History",
    "NativeHarness",
    "NativeSettings",
    "RawToolCall",
    "Replacement",
    "StepResults",
    "ToolProfile",
    "ToolResult",
    "Toolbox",
    "TurnWriter",
    "changes",
    "load_profile",
]
