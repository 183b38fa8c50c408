"""Finds where the hunks of a patch go in a file's text, and applies them.

Codex   (version 0.169.0, by trial) hunks in order, each after the last. An anchor is looked for first, from there on,
        and the block after it. A block is looked for at each level of `paddock.edits.lines` in turn; the first place of
        the first level that has one is taken. `*** End of File` allows the last lines only. A block that ends in an
        empty line and is nowhere is looked for without that line. A hunk without old lines goes to the end of the file,
        anchor or not. The result ends in a newline.
Diff    a block goes where its header says, moved by as much as the hunk before it was; else to the nearest place where
        it stands exactly, below first at equal distance. No fuzz; little context does not tie a hunk to the start or
        end of the file, a note that a newline is missing does. The result ends in a newline unless the diff says that
        it does not; where no hunk touches the end, the file keeps its own.
Partial in a known range of a file a hunk goes where its header's line says, if it stands there, or to the only place
        where it stands, or to the first one after its anchor, if that line is there once.
Errors  EditError `no_match` when there is no place; `unseen` when the known text does not decide it.
"""

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import NamedTuple

from paddock.edits.errors import EditError
from paddock.edits.lines import LEVELS, LineChange, LineTable
from paddock.edits.model import Hunk, Hunks, KnownText


class _PlacedHunk(NamedTuple):
    """Lines of a hunk and the index that the first old one of them, or where there is none the first new one, has."""

    start: int
    lines: tuple[str, ...]


def apply_hunks(edit: Hunks, view: KnownText) -> str:
    table = LineTable(view.text, returns=edit.grammar == "codex")
    if not view.complete:
        return _apply_partial(edit, table, view.first_line)
    return _apply_diff(edit, table) if edit.grammar == "diff" else _apply_codex(edit, table)


def _apply_codex(edit: Hunks, table: LineTable) -> str:
    placed_hunks: list[_PlacedHunk] = []
    line = 0
    for hunk in edit.hunks:
        if hunk.anchor is not None:
            position = _seek(table, (hunk.anchor,), line, at_end=False)
            if position is None:
                raise EditError(f"Failed to find context '{hunk.anchor}' in {edit.path}", edit.path, "no_match")
            line = position + 1
        if not hunk.old:
            placed_hunks.append(_PlacedHunk(len(table), hunk.lines))
            continue
        placed = _place_codex(hunk, table, line)
        if placed is None:
            lines = "\n".join(hunk.old)
            raise EditError(f"Failed to find expected lines in {edit.path}:\n{lines}", edit.path, "no_match")
        placed_hunks.append(placed)
        line = placed.start + len(_old(placed.lines))
    return _render(table, placed_hunks, final_newline=True)


def _place_codex(hunk: Hunk, table: LineTable, line: int) -> _PlacedHunk | None:
    lines = hunk.lines
    start = _seek(table, hunk.old, line, at_end=hunk.at_end)
    if start is None and not hunk.old[-1]:
        lines = _without_last_empty(lines)
        start = _seek(table, _old(lines), line, at_end=hunk.at_end)
    return None if start is None else _PlacedHunk(start, lines)


def _without_last_empty(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Without the last old line, which is empty, and without the last new line if that is empty too."""
    last = max(index for index, line in enumerate(lines) if line[0] != "+")
    newline = ("+",) if lines[last] == " " else ()
    lines = lines[:last] + newline + lines[last + 1 :]
    newest = max((index for index, line in enumerate(lines) if line[0] != "-"), default=None)
    if newest is None or lines[newest][1:]:
        return lines
    removed = ("-",) if lines[newest] == " " else ()
    return lines[:newest] + removed + lines[newest + 1 :]


def _seek(table: LineTable, old: tuple[str, ...], line: int, *, at_end: bool) -> int | None:
    if not at_end or not old:
        return _at_any_level(lambda level: table.find(old, line, level))
    last = len(table) - len(old)
    return _at_any_level(lambda level: last if last >= line and table.matches(old, last, level) else None)


def _at_any_level(find: Callable[[int], int | None]) -> int | None:
    return next((position for level in range(len(LEVELS)) if (position := find(level)) is not None), None)


def _old(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(line[1:] for line in lines if line[0] != "+")


def _render(table: LineTable, placed_hunks: Iterable[_PlacedHunk], *, final_newline: bool) -> str:
    """The text after the hunks. A context line stays as the file has it, which may differ in whitespace."""
    changes: list[LineChange] = []
    for start, lines in placed_hunks:
        at = start
        for kind, run in groupby(lines, key=lambda line: line[0] == " "):
            if kind:
                at += sum(1 for _ in run)
                continue
            new = []
            begin = at
            for line in run:
                if line[0] == "+":
                    new.append(line[1:])
                else:
                    at += 1
            changes.append(LineChange(begin, at, new))
    # Additions to the end can come before hunks that go further up; those at one place keep their order.
    changes.sort(key=lambda change: change.start)
    return table.render(changes, final_newline=final_newline)


def _apply_diff(edit: Hunks, table: LineTable) -> str:
    placed_hunks: list[_PlacedHunk] = []
    line = drift = 0
    final_newline = table.ends_in_newline
    for hunk in edit.hunks:
        old = hunk.old
        stated = (hunk.start or 0) - (1 if old else 0)
        start = _nearest(hunk, table, line, stated + drift)
        if start is None:
            raise EditError(f"hunk at line {hunk.start} does not apply to {edit.path}", edit.path, "no_match")
        drift = start - stated
        line = start + len(old)
        placed_hunks.append(_PlacedHunk(start, hunk.lines))
        if line == len(table):
            final_newline = hunk.final_newline
    return _render(table, placed_hunks, final_newline=final_newline)


def _nearest(hunk: Hunk, table: LineTable, first: int, guess: int) -> int | None:
    """The index nearest to `guess`, and not before `first`, where the hunk can go."""
    old = hunk.old
    if not old:
        return guess if first <= guess <= len(table) else None
    if hunk.at_end:
        last = len(table) - len(old)
        return last if last >= first and table.matches(old, last) else None
    guess = max(guess, first)
    after = table.find(old, guess)
    if after == guess:
        return after
    before = table.find_last(old, first, guess)
    if before is None or (after is not None and after - guess <= guess - before):
        return after
    return before


def _apply_partial(edit: Hunks, table: LineTable, first_line: int) -> str:
    placed_hunks: list[_PlacedHunk] = []
    line = 0
    for hunk in edit.hunks:
        start = None if hunk.at_end else _place_partial(hunk, table, line, first_line)
        if start is None:
            raise EditError(f"{edit.path}: the known text does not decide where a hunk goes", edit.path, "unseen")
        line = start + len(hunk.old)
        placed_hunks.append(_PlacedHunk(start, hunk.lines))
    return _render(table, placed_hunks, final_newline=table.ends_in_newline)


def _place_partial(hunk: Hunk, table: LineTable, first: int, first_line: int) -> int | None:
    old = hunk.old
    stated = None if hunk.start is None else hunk.start - first_line + (0 if old else 1)
    if not old:
        return stated if stated is not None and first <= stated <= len(table) else None
    if stated is not None and stated >= first and table.matches(old, stated):
        return stated
    anchor = None if hunk.anchor is None else _unique_index(table, (hunk.anchor,))
    if anchor is not None:
        return _at_any_level(lambda level: table.find(old, max(first, anchor + 1), level))
    start = _unique_index(table, old)
    return start if start is not None and start >= first else None


def _unique_index(table: LineTable, block: tuple[str, ...]) -> int | None:
    """The index where the block stands, at the first level where it does, if that is one place."""
    for level in range(len(LEVELS)):
        position = table.find(block, 0, level)
        if position is not None:
            return position if table.find(block, position + 1, level) is None else None
    return None
