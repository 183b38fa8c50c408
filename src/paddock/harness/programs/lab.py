"""What the wire lab has to know of a program, to play the same scenarios through each one's own tools.

Items   calls are output items of the Responses API without ids, whatever the program's dialect.
Law     pure and small: names of tools and how their calls are written, nothing of what the program sends.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from paddock.types import JsonObject

DIALECT = "responses"
COMPACT_AT_TOKENS = 1000
"""The lab's answer that has to be followed by a compaction says that it used more."""


class LabTools(NamedTuple):
    """A program's class attribute `lab`."""

    tool: str
    """That runs a line of shell."""
    line: Callable[[str], JsonObject]
    """That tool's arguments for a line."""
    edit: Callable[[str, str, str], JsonObject] | None = None
    """A call that replaces a line of a file, as path, old and new; None: it has no tool for that."""
    finish: Callable[[], JsonObject] | None = None
    """A call that ends its run; None: a message does."""
    core_only: bool = False
    """It is played the first scenarios alone, where none is named."""
    slow: JsonObject = {}
    """More of the shell's arguments: a line that goes on is answered after two seconds or so."""
    settings: JsonObject = {}
    """Of the harness, with which all is played: such as retries that it does not have otherwise."""
    compact: JsonObject | None = None
    """Further ones, with which it sums its history up beyond `COMPACT_AT_TOKENS`; None: it does not."""
    dialects: Mapping[str, JsonObject] = {DIALECT: {}}
    """What it speaks, and the settings that make it; the first is told where none is named."""
    volatile: Sequence[str] = ()
    """Regular expressions of what differs from run to run in its texts: their group, or all that fits."""
    late: Sequence[str] = ()
    """Keys of a request that come as soon as work beside is done, in one request or the next: they are left out."""
