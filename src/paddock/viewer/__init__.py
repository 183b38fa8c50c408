"""A viewer of runs: rollouts in a list, one of them turn by turn, two side by side; as text or as one HTML file.

Law     nothing is judged or computed again, and nothing in the run's folder is written.
"""

from paddock.viewer.blocks import PAGE_LIMITS, TERMINAL_LIMITS, Block, Fold, LengthLimits
from paddock.viewer.entries import Entry, read_entries
from paddock.viewer.page import Part, page
from paddock.viewer.rollout import entry_blocks, title, tone_of
from paddock.viewer.run_list import list_lines
from paddock.viewer.selection import select_rollout, select_rollouts, without_reward
from paddock.viewer.side_by_side import side_by_side
from paddock.viewer.terminal import STYLES, TextLine, render

__all__ = [
    "PAGE_LIMITS",
    "STYLES",
    "TERMINAL_LIMITS",
    "Block",
    "Entry",
    "Fold",
    "LengthLimits",
    "Part",
    "TextLine",
    "entry_blocks",
    "list_lines",
    "page",
    "read_entries",
    "render",
    "select_rollout",
    "select_rollouts",
    "side_by_side",
    "title",
    "tone_of",
    "without_reward",
]
