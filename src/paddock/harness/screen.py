"""Renders terminal output as a reader of the screen sees it. Pure; standard library only: programs outside load it.

Law     colours and other control sequences are dropped; what is written after a return to the start of the line, or
        after a backspace, stands over what was there; blanks at the end are dropped. Moves between lines are not drawn.
"""

import re

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, moves
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b\n]*(?:\x1b\\)?"  # other strings
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00\x07\x0e\x0f]"
)
_BACK = re.compile(r"([\r\x08])")


def render_screen(text: str) -> str:
    """Return the text on the screen after `text` was written to it."""
    text = _SEQUENCE.sub("", text)
    if _BACK.search(text):
        text = "\n".join(_overwritten(line) for line in re.sub(r"\r+\n", "\n", text).split("\n"))
    return text.rstrip()


def _overwritten(line: str) -> str:
    """Apply returns and backspaces, in time linear in the line."""
    cells: list[str] = []
    at = 0
    for part in _BACK.split(line):
        if part == "\r":
            at = 0
        elif part == "\x08":
            at = max(0, at - 1)
        else:
            cells[at : at + len(part)] = part
            at += len(part)
    return "".join(cells)
