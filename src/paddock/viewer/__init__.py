"""Seeing a run: its rollouts in a list, one of them turn by turn, two side by side; as text or as one HTML file.

Law     nothing is judged or computed again, and nothing in the run's folder is written.
"""

from paddock.viewer.blocks import PAGE_CUTS, TERMINAL_CUTS, Block, Cuts, Fold
from paddock.viewer.choosing import chosen, failed_only, the_one
from paddock.viewer.listing import lines
from paddock.viewer.page import Part, page
from paddock.viewer.rollout import entry_blocks, title, tone_of
from paddock.viewer.stored import Entry, entries
from paddock.viewer.terminal import STYLES, Line, rendered
from paddock.viewer.two import two_blocks

__all__ = [
    "PAGE_CUTS",
    "STYLES",
    "TERMINAL_CUTS",
    "Block",
    "Cuts",
    "Entry",
    "Fold",
    "Line",
    "Part",
    "chosen",
    "entries",
    "entry_blocks",
    "failed_only",
    "lines",
    "page",
    "rendered",
    "the_one",
    "title",
    "tone_of",
    "two_blocks",
]
