"""Texts of files as the editor reads, numbers and writes them. Pure.

Source   the file editor of openhands-tools 1.58.0, measured.
Read     UTF-8 and UTF-16 with a byte order mark, UTF-8, else Windows-1252, else Latin-1; every line end becomes a
         newline, so what is written back has no other. What is no UTF-8 and holds control characters is binary. The
         real editor guesses among more encodings, by statistics.
Written  in the encoding that was read; in UTF-8 where that lacks a character of the new text.
"""

import codecs
import re
from typing import NamedTuple

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_LINE_END = re.compile(r"\r\n?")
FILE_NOTICE = (
    "<response clipped><NOTE>Due to the max output limit, only part of this file has been shown to you. You should "
    "retry this tool after you have searched inside the file with `grep -n` in order to find the line numbers of what "
    "you are looking for.</NOTE>"
)
FOLDER_NOTICE = (
    "<response clipped><NOTE>Due to the max output limit, only part of this directory has been shown to you. You "
    "should use `ls -la` instead to view large directories incrementally.</NOTE>"
)


class FileText(NamedTuple):
    """A file's text, with newlines alone."""

    text: str
    encoding: str


def decode_file(data: bytes) -> FileText | None:
    """Decode a file's bytes; None: it is binary."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return FileText(normalise_newlines(data.decode(encoding)), encoding)
            except UnicodeDecodeError:
                break
    for encoding in ("utf-8", "cp1252", "latin-1"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return None if encoding != "utf-8" and _CONTROL.search(text) else FileText(normalise_newlines(text), encoding)
    return None


def encode_file(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return text.encode()


def normalise_newlines(text: str) -> str:
    """Replace every other line end by a newline."""
    return _LINE_END.sub("\n", text) if "\r" in text else text


def lines_of(text: str) -> list[str]:
    """Split a text into its lines, with their newlines."""
    return _LINE.findall(text)


def clip(text: str, max_chars: int, notice: str) -> str:
    """Cut the middle of a text that is too long; the notice in its place counts."""
    if len(text) <= max_chars:
        return text
    room = max(0, max_chars - len(notice))
    return text[: room - room // 2] + notice + text[len(text) - room // 2 :]


def number_lines(text: str, first: int, what: str, max_chars: int) -> str:
    """Number the lines as `cat -n` does; `what`: the heading's name for the text."""
    pieces = clip(text, max_chars, FILE_NOTICE).split("\n")
    if not pieces[-1]:
        pieces.pop()
    shown = "".join(f"{number:6}\t{piece}\n" for number, piece in enumerate(pieces, first))
    return f"Here's the result of running `cat -n` on {what}:\n{shown}"
