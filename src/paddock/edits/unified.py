"""Unified diffs, of git and of plain diff, as edits.

Source   "Unified Format" in the GNU diffutils manual; git-diff's "Generating patch text with -p".
Files    `/dev/null` on the old side: a `Write` that refuses an existing file; on the new side: a `Delete`; a rename is
         a `Move`, or `Hunks` with `move_to`. A change of mode alone is no edit. Text between files is skipped.
Paths    git's `a/` and `b/` are taken off where both sides have them; quoted names are unquoted; a tab ends a name.
Lines    a hunk's header says how many lines it has, and they are counted; an empty line is an empty context line. Where
         every line of the diff ends in "\\r\\n", the "\\r" is the transport's and is dropped.
Errors   PatchError: no file at all, a hunk without a file or with other counts than its header, binary, copies.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from paddock.edits.errors import PatchError
from paddock.edits.model import Delete, Edit, Hunk, Hunks, Move, Write, split_lines

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_QUOTED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_NOWHERE = "/dev/null"


def parse_unified_diff(text: str) -> list[Edit]:
    """The edits of a diff, one per file, in order; PatchError when it is not one."""
    lines = split_lines(text)
    if all(line.endswith("\r") for line in lines if line):
        lines = [line.removesuffix("\r") for line in lines]
    reader = _DiffReader(lines)
    files = reader.files()
    if not files:
        raise PatchError("there is no file in the diff")
    return [edit for file in files if (edit := _edit(file)) is not None]


@dataclass
class _FileDiff:
    """One file's part of a diff."""

    line: int
    old: str = ""
    """Path before; `/dev/null` when the file is new."""
    new: str = ""
    renamed: bool = False
    hunks: list[Hunk] = field(default_factory=list)


def _edit(file: _FileDiff) -> Edit | None:
    if file.old == _NOWHERE:
        return Write(file.new, "".join(_added_text(hunk) for hunk in file.hunks), create_only=True)
    if file.new == _NOWHERE:
        return Delete(file.old)
    move_to = file.new if file.renamed else None
    if file.hunks:
        return Hunks(file.old, tuple(file.hunks), move_to, "diff")
    return Move(file.old, move_to) if move_to else None


def _added_text(hunk: Hunk) -> str:
    text = "".join(line + "\n" for line in hunk.new)
    return text if hunk.final_newline else text.removesuffix("\n")


class _DiffReader:
    """A cursor over the lines of a diff."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def _peek(self, ahead: int = 0) -> str:
        index = self._at + ahead
        return self._lines[index] if index < len(self._lines) else ""

    def files(self) -> list[_FileDiff]:
        files: list[_FileDiff] = []
        while self._at < len(self._lines):
            line = self._peek()
            if line.startswith("diff --git "):
                files.append(self._git_file())
            elif line.startswith("--- ") and self._peek(1).startswith("+++ "):
                files.append(self._plain_file())
            elif _HUNK.match(line):
                raise PatchError("a hunk without a file", self._at + 1)
            else:
                self._at += 1
        return files

    def _git_file(self) -> _FileDiff:
        file = _FileDiff(self._at + 1)
        file.old, file.new = _git_names(self._peek().removeprefix("diff --git "))
        self._at += 1
        while self._at < len(self._lines) and not self._peek().startswith(("diff --git ", "@@ ", "--- ")):
            self._extended(self._peek(), file)
            self._at += 1
        if self._peek().startswith("--- ") and self._peek(1).startswith("+++ "):
            self._names(file)
        self._hunks(file)
        if not file.old or not file.new:
            raise PatchError("the diff does not name its file", file.line)
        return file

    def _extended(self, line: str, file: _FileDiff) -> None:
        if line.startswith("new file mode"):
            file.old = _NOWHERE
        elif line.startswith("deleted file mode"):
            file.new = _NOWHERE
        elif line.startswith("rename from "):
            file.old, file.renamed = _unquote(line.removeprefix("rename from ")), True
        elif line.startswith("rename to "):
            file.new, file.renamed = _unquote(line.removeprefix("rename to ")), True
        elif line.startswith(("copy from ", "Binary files ", "GIT binary patch")):
            raise PatchError("copies and binary files cannot be read as edits of text", self._at + 1)

    def _plain_file(self) -> _FileDiff:
        file = _FileDiff(self._at + 1)
        self._names(file)
        self._hunks(file)
        if not file.hunks:
            raise PatchError("a file without hunks", file.line)
        return file

    def _names(self, file: _FileDiff) -> None:
        old, new = (_name(self._peek(ahead)[4:]) for ahead in (0, 1))
        if old in (_NOWHERE, "") and new in (_NOWHERE, ""):
            raise PatchError("the diff does not name its file", self._at + 1)
        if (old == _NOWHERE or old.startswith("a/")) and (new == _NOWHERE or new.startswith("b/")):
            old, new = (name if name == _NOWHERE else name[2:] for name in (old, new))
        # Without a rename line the two names are one file's: plain diff is often given a copy under another name.
        file.old = old
        file.new = new if file.renamed or _NOWHERE in (old, new) else old
        self._at += 2

    def _hunks(self, file: _FileDiff) -> None:
        while header := _HUNK.match(self._peek()):
            self._at += 1
            start, old_count, _, new_count = (int(group) if group else 1 for group in header.groups())
            file.hunks.append(self._hunk(start, old_count, new_count))
        if file.hunks and self._peek()[:1] in ("+", "-", " ") and not self._peek().startswith(("--- ", "-- ")):
            raise PatchError("a hunk has more lines than its header says", self._at + 1)

    def _hunk(self, start: int, old_left: int, new_left: int) -> Hunk:
        body: list[str] = []
        at_end, final_newline = False, True
        while old_left or new_left or self._peek().startswith("\\"):
            if self._at >= len(self._lines):
                raise PatchError("a hunk has fewer lines than its header says", self._at)
            line = self._peek() or " "
            if line[0] not in " +-\\" or (line[0] == "\\" and not body):
                raise PatchError(f"not a line of a hunk: '{line[:80]}'", self._at + 1)
            self._at += 1
            if line[0] == "\\":
                at_end = True
                final_newline = final_newline and body[-1][0] == "-"
                continue
            old_left -= line[0] != "+"
            new_left -= line[0] != "-"
            if old_left < 0 or new_left < 0:
                raise PatchError("a hunk has more lines than its header says", self._at)
            body.append(line)
        return Hunk(tuple(body), start=start, at_end=at_end, final_newline=final_newline)


class _Names(NamedTuple):
    old: str
    new: str


def _git_names(rest: str) -> _Names:
    """Both paths of a `diff --git` line. Unquoted ones are told apart only when they are equal; else both are empty."""
    middle = rest.find('" ', 1) + 1 if rest.startswith('"') else len(rest) // 2
    old, new = _unquote(rest[:middle]), _unquote(rest[middle + 1 :])
    same = old.startswith("a/") and new.startswith("b/") and old[2:] == new[2:]
    return _Names(old[2:], new[2:]) if same else _Names("", "")


def _name(rest: str) -> str:
    """The path of a `---` or `+++` line, which a tab and a time may follow."""
    return _unquote(rest.split("\t", 1)[0].rstrip(" "))


def _unquote(name: str) -> str:
    """A path as git quotes it: in double quotes, with C escapes for bytes."""
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):
        return name
    raw = name[1:-1].encode("utf-8", "surrogatepass")
    return _QUOTED.sub(lambda match: _unescape(match[1]), raw).decode("utf-8", "replace")


def _unescape(escape: bytes) -> bytes:
    if len(escape) == 3:
        return bytes([int(escape, 8) & 0xFF])
    return _ESCAPES.get(escape, escape)
