"""Applies edits to texts: one after another, on a new mapping, all or nothing.

Input   `str` is a whole file. A path that the mapping lacks is a missing file in `apply`, unknown in `apply_known`.
Partial a `KnownText` that is not complete is a known range of a file of unknown length. On it an edit is made only
        where what was seen decides it: a string or a block of lines that was seen exactly once is taken to be the only
        one in the file; a line number within the range is exact. Anything else is `unseen`, an edit at the end of the
        file too.
Errors  EditError; the mapping given is never changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from paddock.edits.errors import EditError, EditErrorKind
from paddock.edits.hunks import apply_hunks
from paddock.edits.model import (
    Delete,
    Edit,
    Hunks,
    Insert,
    KnownText,
    Move,
    Replace,
    ReplaceLines,
    Undo,
    Write,
    split_lines,
)


def apply(edits: Iterable[Edit], files: Mapping[str, str]) -> dict[str, str]:
    """The files after the edits; deleted ones are absent. EditError when one cannot be made."""
    after = _apply(edits, {path: KnownText.whole(text) for path, text in files.items()}, absent="missing_file")
    return {path: text.text for path, text in after.items()}


def apply_known(edits: Iterable[Edit], files: Mapping[str, KnownText | str]) -> dict[str, KnownText]:
    """As `apply`, where only a part of the files, and of each file, is known; `unseen` where that does not suffice."""
    views = {path: KnownText.whole(text) if isinstance(text, str) else text for path, text in files.items()}
    return _apply(edits, views, absent="unseen")


def _apply(edits: Iterable[Edit], files: dict[str, KnownText], *, absent: EditErrorKind) -> dict[str, KnownText]:
    state = _Files(files, absent)
    for edit in edits:
        state.apply(edit)
    return state.files


class _Files:
    """The files in the middle of a sequence of edits, with each one's history."""

    def __init__(self, files: dict[str, KnownText], absent: EditErrorKind) -> None:
        self.files = files
        self._absent: EditErrorKind = absent
        self._deleted: set[str] = set()
        self._history: dict[str, list[KnownText]] = {}

    def apply(self, edit: Edit) -> None:
        match edit:
            case Write():
                self._write(edit)
            case Delete(path):
                self._remove(path)
            case Move(path, to):
                self._move(path, to, self._get(path))
            case Undo(path):
                self._undo(path)
            case Hunks(path, move_to=to) if to is not None:
                self._move(path, to, _apply_edit(edit, self._get(path)))
            case _:
                text = self._get(edit.path)
                self.files[edit.path] = _apply_edit(edit, text)
                self._history.setdefault(edit.path, []).append(text)

    def _get(self, path: str) -> KnownText:
        if path not in self.files:
            kind = "missing_file" if path in self._deleted else self._absent
            raise EditError(f"{path}: no such file" if kind == "missing_file" else f"{path} was not seen", path, kind)
        return self.files[path]

    def _remove(self, path: str) -> None:
        self._get(path)
        del self.files[path]
        self._deleted.add(path)

    def _put(self, path: str, text: KnownText) -> None:
        self.files[path] = text
        self._deleted.discard(path)

    def _write(self, edit: Write) -> None:
        if edit.create_only and edit.path in self.files:
            raise EditError(f"{edit.path}: the file exists", edit.path, "file_exists")
        text = KnownText.whole(edit.text)
        self._put(edit.path, text)
        self._history.setdefault(edit.path, []).append(text)

    def _move(self, path: str, to: str, text: KnownText) -> None:
        # In this order a file moved onto itself is lost, as it is with apply_patch.
        self._put(to, text)
        self._remove(path)

    def _undo(self, path: str) -> None:
        self._get(path)
        if not self._history.get(path):
            raise EditError(f"{path}: no edit to undo", path, "no_history")
        self.files[path] = self._history[path].pop()


def _apply_edit(edit: Replace | Insert | ReplaceLines | Hunks, view: KnownText) -> KnownText:
    match edit:
        case Replace():
            text = _apply_replace(edit, view)
        case Insert():
            text = _apply_insert(edit, view)
        case ReplaceLines():
            text = _apply_replace_lines(edit, view)
        case Hunks():
            text = apply_hunks(edit, view)
    return replace(view, text=text)


def _apply_replace(edit: Replace, view: KnownText) -> str:
    path, old = edit.path, edit.old
    if old == edit.new:
        raise EditError(f"{path}: the old and the new text are the same", path, "no_change")
    if edit.replace_all and not view.complete:
        raise EditError(f"{path}: not all of the file was seen", path, "unseen")
    count = view.text.count(old)
    if not count:
        raise EditError(f"{path}: the old text is not there", path, "no_match" if view.complete else "unseen")
    if count > 1 and not edit.replace_all:
        raise EditError(f"{path}: the old text is there {count} times", path, "ambiguous")
    return view.text.replace(old, edit.new)


def _apply_insert(edit: Insert, view: KnownText) -> str:
    after = _index(edit.path, edit.after_line, view, lowest=0)
    at = _offset(view.text, after)
    return view.text[:at] + edit.text + "\n" + view.text[at:]


def _apply_replace_lines(edit: ReplaceLines, view: KnownText) -> str:
    start = _index(edit.path, edit.start, view, lowest=1)
    if edit.end is None:
        if not view.complete:
            raise EditError(f"{edit.path}: the end of the file was not seen", edit.path, "unseen")
        head, tail = view.text[: _offset(view.text, start - 1)], ""
    else:
        end = _index(edit.path, edit.end, view, lowest=edit.start)
        head, tail = view.text[: _offset(view.text, start - 1)], view.text[_offset(view.text, end) :]
    return head + edit.text + ("\n" if edit.text and not edit.text.endswith("\n") else "") + tail


def _index(path: str, line: int, view: KnownText, *, lowest: int) -> int:
    """A line number of the file as one of the known range, whose first line is 1; `lowest` may be the one before it."""
    count = len(split_lines(view.text))
    index = line - view.first_line + 1
    if line < lowest or (view.complete and index > count):
        raise EditError(f"{path}: line {line} is not in {lowest}..{count}", path, "line_range")
    if not min(lowest, 1) <= index <= count:
        raise EditError(f"{path}: line {line} was not seen", path, "unseen")
    return index


def _offset(text: str, lines: int) -> int:
    """Where the text goes on after so many lines."""
    at = 0
    for _ in range(lines):
        at = text.find("\n", at) + 1
        if not at:
            return len(text)
    return at
