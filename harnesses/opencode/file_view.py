"""What opencode's `read` shows of a file or a directory.

File      lines with their numbers, at most so many lines and bytes; CR, LF and CRLF end a line, and nothing else does.
          A long line is cut, counted in UTF-16 units as the program does; half a character is then U+FFFD.
Binary    by the name's ending, by a NUL or by many control characters in the first bytes; images and PDFs, which the
          program attaches to the message, are named in words only.
Directory one entry per line, a slash after directories and links to them, in the order of people's alphabets.
Errors    ToolError, in the program's words.
"""

import re
import unicodedata
from collections.abc import Sequence
from posixpath import splitext
from typing import NamedTuple

from paddock.harnesses.opencode.errors import ToolError

SAMPLE_BYTES = 4096
"""Bytes of a file's start that decide whether it is binary."""
CONTROL_SHARE = 0.3
_BINARY = re.compile(
    r"zip|tar|gz|exe|dll|so|class|jar|war|7z|docx?|xlsx?|pptx?|od[tsp]|bin|dat|obj|o|a|lib|wasm|py[co]", re.IGNORECASE
)
_MAGIC = ((b"\x89PNG\r\n\x1a\n", "Image"), (b"\xff\xd8\xff", "Image"), (b"GIF8", "Image"), (b"%PDF-", "PDF"))
_NAMED = {".png": "Image", ".jpg": "Image", ".jpeg": "Image", ".gif": "Image", ".webp": "Image", ".pdf": "PDF"}
_NEWLINE = re.compile(r"\r\n|\r|\n")
_ORDER = {char: at for at, char in enumerate("_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789")}


class ViewLimits(NamedTuple):
    """Limits of one view."""

    lines: int
    line_units: int
    """UTF-16 units of a line that are shown."""
    size_bytes: int
    """Of all lines together."""


class _Window(NamedTuple):
    shown: list[str]
    total: int
    """Lines that were counted: all of them, unless `cut`."""
    cut: bool
    """A line did not fit into the byte limit."""
    more: bool


def show_file(path: str, data: bytes, offset: int, limits: ViewLimits) -> str:
    attached = _attached(path, data)
    if attached:
        return f"{attached} read successfully"
    if _is_binary(path, data[:SAMPLE_BYTES]):
        raise ToolError(f"Cannot read binary file: {path}")
    offset = offset or 1
    window = _window(_lines(data), offset, limits)
    if window.total < offset and not (window.total == 0 and offset == 1):
        raise ToolError(f"Offset {offset} is out of range for this file ({window.total} lines)")
    last = offset + len(window.shown) - 1
    body = "\n".join(f"{number}: {line}" for number, line in enumerate(window.shown, offset))
    if window.cut:
        kib = limits.size_bytes // 1024
        note = f"(Output capped at {kib} KB. Showing lines {offset}-{last}. Use offset={last + 1} to continue.)"
    elif window.more:
        note = f"(Showing lines {offset}-{last} of {window.total}. Use offset={last + 1} to continue.)"
    else:
        note = f"(End of file - total {window.total} lines)"
    return f"<path>{path}</path>\n<type>file</type>\n<content>\n{body}\n\n{note}\n</content>"


def show_directory(path: str, entries: Sequence[str], offset: int, limit: int) -> str:
    offset = offset or 1
    ordered = sorted(entries, key=_collated)
    shown = ordered[offset - 1 : offset - 1 + limit]
    if offset - 1 + len(shown) < len(ordered):
        after = offset + len(shown)
        note = f"(Showing {len(shown)} of {len(ordered)} entries. Use 'offset' parameter to read beyond entry {after})"
    else:
        note = f"({len(ordered)} entries)"
    lines = "\n".join(shown)
    return f"<path>{path}</path>\n<type>directory</type>\n<entries>\n{lines}\n\n{note}\n</entries>"


def not_found(path: str, name: str, folder: str, entries: Sequence[str]) -> str:
    """Say that a file is not there, with up to three similar names beside it."""
    near = [entry for entry in sorted(entries) if name.lower() in entry.lower() or entry.lower() in name.lower()]
    lines = [f"File not found: {path}"]
    if near:
        lines += ["", "Did you mean one of these?", *(f"{folder.rstrip('/')}/{entry}" for entry in near[:3])]
    return "\n".join(lines)


def _lines(data: bytes) -> list[str]:
    lines = _NEWLINE.split(data.decode(errors="replace").removeprefix("\ufeff"))
    return lines[:-1] if lines[-1] == "" else lines


def _window(lines: Sequence[str], offset: int, limits: ViewLimits) -> _Window:
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines[offset - 1 :], offset):
        if len(shown) >= limits.lines:
            return _Window(shown, len(lines), cut=False, more=True)
        text = _shortened(line, limits.line_units)
        needed = len(text.encode()) + bool(shown)
        if size + needed > limits.size_bytes:
            return _Window(shown, number, cut=True, more=True)
        shown.append(text)
        size += needed
    return _Window(shown, len(lines), cut=False, more=False)


def _shortened(line: str, units: int) -> str:
    if len(line) <= units // 2:
        return line
    encoded = line.encode("utf-16-le", "surrogatepass")
    if len(encoded) <= 2 * units:
        return line
    return encoded[: 2 * units].decode("utf-16-le", "replace") + f"... (line truncated to {units} chars)"


def _attached(path: str, data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "Image"
    by_content = next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)
    return by_content or _NAMED.get(splitext(path)[1].lower())


def _is_binary(path: str, sample: bytes) -> bool:
    if _BINARY.fullmatch(splitext(path)[1][1:]):
        return True
    if not sample:
        return False
    controls = sum(byte < 9 or 13 < byte < 32 for byte in sample)
    return 0 in sample or controls / len(sample) > CONTROL_SHARE


def _collated(name: str) -> tuple[list[tuple[int, int]], str, str]:
    """Signs, digits, letters; then accents; then small letters before large ones."""
    plain = "".join(char for char in unicodedata.normalize("NFD", name) if not unicodedata.combining(char))
    primary = [(0, _ORDER[char]) if char in _ORDER else (1, ord(char)) for char in plain.lower()]
    return primary, unicodedata.normalize("NFD", name.lower()), name.swapcase()
