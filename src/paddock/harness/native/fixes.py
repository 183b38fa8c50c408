"""A known fix as changes of text files, each located by a text that stands once in its file: for oracles.

Law     made in order, the replacements of a file turn its text before into its text after, each `old` standing exactly
        once when its turn comes. That holds where the text before is known; else a hunk's own lines are `old`, and may
        stand elsewhere too.
Source  git patches of text (`paddock.edits.parse_unified_diff`). A change of mode alone is `executable`.
Errors  ValueError for what no editor of text can make: binary files, bytes that are no UTF-8; PatchError, EditError for
        a patch that is none, or does not apply to the texts.
"""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from paddock.edits import Delete, Edit, Hunks, Move, Write, apply, parse_unified_diff
from paddock.types import Fix

_MODE = re.compile(r"^(?:new file mode|new mode) (100755|100644)$", re.MULTILINE)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_ADDED = re.compile(r"^\+\+\+ b/(.+?)\t?$|^rename to (.+)$", re.MULTILINE)


class Replacement(NamedTuple):
    """Whole lines in place of whole lines."""

    line: int
    """Number of the first line of `old` in the file as it then is."""
    old: str
    """Empty: the file is empty."""
    new: str


class FileFix(NamedTuple):
    """The change of a fix to one file. Paths are below the workdir."""

    kind: Literal["add", "modify", "delete"]
    path: str
    """The path before the fix; of an added file, its path."""
    to: str | None
    """The path to which it is moved; None: it stays."""
    text: str | None
    """The text after the fix; None: deleted, or the text before is unknown."""
    replacements: list[Replacement]
    """Changes of a modified file's text; empty: it is only moved."""
    executable: bool | None
    """Whether the fix makes it executable; None: it leaves the mode."""


def changes(fix: Fix) -> list[FileFix]:
    """Return the changes of a fix to each file, in the patch's order. Raises ValueError, PatchError, EditError."""
    try:
        text = fix.patch.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"the fix is no UTF-8 text: {error}") from error
    modes = _modes(text)
    edited = [_change(edit, fix.files, modes) for edit in parse_unified_diff(text)]
    paths = {change.to or change.path for change in edited}
    alone = [path for path in modes if path not in paths]
    return [*edited, *(FileFix("modify", path, None, fix.files.get(path), [], modes[path]) for path in alone)]


def _change(edit: Edit, files: dict[str, str], modes: dict[str, bool]) -> FileFix:
    match edit:
        case Write(path, text):
            return FileFix("add", path, None, text, [], modes.get(path))
        case Delete(path):
            return FileFix("delete", path, None, None, [], None)
        case Move(path, to):
            return FileFix("modify", path, to, files.get(path), [], modes.get(to))
        case Hunks(path, move_to=to):
            executable = modes.get(to or path)
            before = files.get(path)
            if before is None:
                return FileFix("modify", path, to, None, list(_of_hunks(edit)), executable)
            after = apply([edit], {path: before})[to or path]
            return FileFix("modify", path, to, after, list(_between(before, after)), executable)
    raise ValueError(f"{type(edit).__name__} is nothing that a diff says")


def _of_hunks(edit: Hunks) -> Iterator[Replacement]:
    for hunk in edit.hunks:
        old = "".join(line + "\n" for line in hunk.old)
        new = "".join(line + "\n" for line in hunk.new)
        if hunk.at_end and not hunk.final_newline:
            new = new.removesuffix("\n")
        yield Replacement(hunk.start or 1, old, new)


def _between(before: str, after: str) -> Iterator[Replacement]:
    """Yield runs of changed lines, each extended by the lines around it until it stands once in the file."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    now = old.copy()
    shift = 0
    for tag, start, end, new_start, new_end in blocks:
        if tag == "equal":
            continue
        first, last = _extend("".join(now), now, start + shift, end + shift)
        put = [*now[first : start + shift], *new[new_start:new_end], *now[end + shift : last]]
        yield Replacement(first + 1, "".join(now[first:last]), "".join(put))
        now[start + shift : end + shift] = new[new_start:new_end]
        shift += (new_end - new_start) - (end - start)


class _Span(NamedTuple):
    first: int
    last: int


def _extend(text: str, lines: list[str], first: int, last: int) -> _Span:
    """Return the least span of lines around `first:last` that stands once; all lines at most."""
    while (first > 0 or last < len(lines)) and (first == last or not _stands_once("".join(lines[first:last]), text)):
        first, last = max(0, first - 1), min(len(lines), last + 1)
    return _Span(first, last)


def _stands_once(block: str, text: str) -> bool:
    at = text.find(block)
    return bool(block.strip()) and text.find(block, at + 1) < 0


def _modes(patch: str) -> dict[str, bool]:
    """Return the paths whose mode the patch sets, and whether they become executable."""
    modes: dict[str, bool] = {}
    for section in re.split(r"^(?=diff --git )", patch, flags=re.MULTILINE):
        head = section.split("\n@@ ", 1)[0]
        mode = _MODE.search(head)
        name = _ADDED.search(head) or re.search(r"^diff --git a/(.+) b/\1$", head, re.MULTILINE)
        if mode and name:
            modes[next(group for group in name.groups() if group)] = mode[1] == "100755"
    return modes
