"""The edits that tools make, as values: what a call asks for, whether or not it can be done.

Source  str_replace_editor and file_editor (OpenHands), edit and write (OpenCode), apply_patch (Codex), unified diffs.
Paths   as given: resolving and normalising them is the caller's.
Lines   numbers are 1-based. A line ends at "\\n" and at nothing else; a "\\r" before it belongs to the line.
Text    any str; the sizes it is made for are files of up to 2 MB.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

Grammar = Literal["codex", "diff"]


@dataclass(frozen=True, slots=True)
class Write:
    """The file's whole text."""

    path: str
    text: str
    create_only: bool = False
    """True: the tool refuses a file that exists (str_replace_editor's `create`)."""


@dataclass(frozen=True, slots=True)
class Replace:
    """One string for another, verbatim. A second try of an editor with other whitespace is a second `Replace`."""

    path: str
    old: str
    new: str
    replace_all: bool = False
    """False: `old` must occur exactly once; occurrences do not overlap."""


@dataclass(frozen=True, slots=True)
class Insert:
    """Lines put after a line, as str_replace_editor does: each line of `text` gets a newline, the last one too.

    So a `text` that ends in a newline leaves an empty line, and after a last line without newline the text joins it.
    """

    path: str
    after_line: int
    """0: before the first line."""
    text: str


@dataclass(frozen=True, slots=True)
class ReplaceLines:
    """Lines `start` to `end`, both included, become `text`; a final newline is added where `text` has none."""

    path: str
    start: int
    end: int | None
    """None: the file's last line."""
    text: str
    """Empty: the lines are removed."""


@dataclass(frozen=True, slots=True)
class Delete:
    path: str


@dataclass(frozen=True, slots=True)
class Move:
    """A file renamed; what was at `to` is lost."""

    path: str
    to: str


@dataclass(frozen=True, slots=True)
class Undo:
    """Takes back the last edit of the file among those applied with it.

    As str_replace_editor has it, undoing a `Write` leaves the text that was written.
    """

    path: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """A block of lines to find and what to put there."""

    lines: tuple[str, ...]
    """As in the patch: each begins with " " (kept), "-" (removed) or "+" (added); no newlines."""
    anchor: str | None = None
    """Codex: the line named after `@@`, which is looked for first. None: there is none."""
    start: int | None = None
    """Unified diff: number of the first old line, or of the line before when there is none. None in a Codex patch."""
    at_end: bool = False
    """True: the old lines are the file's last."""
    final_newline: bool = True
    """False: the new lines are the file's last, and the last has no newline (unified diff only)."""

    @property
    def old(self) -> tuple[str, ...]:
        return tuple(line[1:] for line in self.lines if line[0] != "+")

    @property
    def new(self) -> tuple[str, ...]:
        return tuple(line[1:] for line in self.lines if line[0] != "-")


@dataclass(frozen=True, slots=True)
class Hunks:
    """What a patch does to one file; `paddock.edits.hunks` states where each grammar's hunks go."""

    path: str
    hunks: tuple[Hunk, ...]
    move_to: str | None = None
    """The path it gets afterwards; None: it stays where it is."""
    grammar: Grammar = "codex"


Edit = Write | Replace | Insert | ReplaceLines | Delete | Move | Undo | Hunks


class FileChange(Protocol):
    """An edit, or another change of one file."""

    @property
    def path(self) -> str: ...


def paths_of(change: FileChange) -> set[str]:
    """The paths that a change touches: its own, and where it moves the file to."""
    match change:
        case Move(path, to):
            return {path, to}
        case Hunks(path, move_to=to) if to is not None:
            return {path, to}
        case _:
            return {change.path}


def count_changes(changes: Iterable[object]) -> int:
    """How many changes there are; each hunk of a patch is one."""
    return sum(len(change.hunks) if isinstance(change, Hunks) else 1 for change in changes)


@dataclass(frozen=True, slots=True)
class KnownText:
    """The known part of a file: a contiguous range of its lines."""

    first_line: int
    """Number of the first known line."""
    text: str
    complete: bool
    """True: this is the whole file, and `first_line` is 1."""

    @classmethod
    def whole(cls, text: str) -> "KnownText":
        return cls(first_line=1, text=text, complete=True)


def split_lines(text: str) -> list[str]:
    """Lines without their newlines; a final newline ends the last line and starts none."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines
