"""Harnesses as Python classes: one loop over the Responses API, a box of tools, and data for what the model is shown.

Parts   `NativeHarness` (the loop), `Toolbox` (executors, a method per tool), `Profile` (tools and templates, as data),
        `History` and `Context` (what of it the model sees), `changes` (a known fix as edits of text).
Class   a new harness derives from `NativeHarness` and names its toolbox; what the real program answers to a call that
        no tool can take is its toolbox's.
"""

from paddock.harness.native.calling import Answered
from paddock.harness.native.fixes import FileChange, Replacement, changes
from paddock.harness.native.history import Context, Everything, History
from paddock.harness.native.loop import NativeHarness
from paddock.harness.native.playing import Player
from paddock.harness.native.profile import Profile, load_profile
from paddock.harness.native.settings import NativeSettings
from paddock.harness.native.toolbox import Called, Said, Toolbox

__all__ = [
    "Answered",
    "Called",
    "Context",
    "Everything",
    "FileChange",
    "History",
    "NativeHarness",
    "NativeSettings",
    "Player",
    "Profile",
    "Replacement",
    "Said",
    "Toolbox",
    "changes",
    "load_profile",
]
