"""Calls of editing tools as edits of files.

Source  str_replace_editor and file_editor (view, create, str_replace, insert, undo_edit), edit, write and edit_file of
        OpenHands, OpenCode, Claude Code, qwen-code and pi; apply_patch under its three argument names.
Rules   an empty old text makes `edit` write the file, as its tools do; `str_replace` refuses it. Equal old and new text
        is refused, as its tools do. A patch that does not parse is refused: `bad_patch`. A patch argument is read as
        Codex's grammar where it has its envelope, else as a unified diff.
"""

import posixpath
from dataclasses import replace

from paddock.edits import Edit as FileEdit
from paddock.edits import (
    Hunks,
    Insert,
    Move,
    PatchError,
    Replace,
    ReplaceLines,
    Undo,
    Write,
    parse_codex_patch,
    parse_unified_diff,
)
from paddock.tools.actions import Edit, Read
from paddock.tools.arguments import Arguments, BadArgumentError
from paddock.tools.looking import line_range

PATCH_ENVELOPE = "*** Begin Patch"


def editor_action(given: Arguments) -> Edit | Read:
    command = given.filled("command")
    path = given.filled("path")
    if command == "view":
        return Read(path, *line_range(given.take("view_range")), given.rest())
    edit: FileEdit
    if command == "create":
        edit = Write(path, given.text("content"), create_only=True)
    elif command == "str_replace":
        edit = replacement(path, given, optional_new=True)
    elif command == "insert":
        line = given.number("insert_line")
        if line is None:
            raise BadArgumentError("missing_argument", "no insert_line")
        if line < 0:
            raise BadArgumentError("wrong_value", f"insert_line is {line}")
        edit = Insert(path, line, given.text("new"))
    elif command == "undo_edit":
        edit = Undo(path)
    else:
        raise BadArgumentError("wrong_value", f"command {command!r:.40} is none of the editor's")
    return Edit((edit,), given.rest())


def replacement(path: str, given: Arguments, *, optional_new: bool = False) -> Replace:
    old = given.text("old")
    if not old:
        raise BadArgumentError("missing_argument", "the text to replace is empty")
    new = given.maybe("new") if optional_new else given.text("new")
    return checked(Replace(path, old, new or "", given.flag("all")))


def checked(edit: Replace) -> Replace:
    if edit.old == edit.new:
        raise BadArgumentError("wrong_value", "old and new text are equal: nothing would change")
    return edit


def replace_action(given: Arguments) -> Edit:
    path = given.filled("path")
    several = given.take("edits")
    if several is not None:
        return Edit(tuple(_several(path, several)), given.rest())
    if given.has("old") and not given.text("old"):
        return Edit((Write(path, given.text("new"), create_only=True),), given.rest())
    edit = replacement(path, given)
    if given.take("expected_replacements") is not None:
        times = given.count("expected_replacements") or 0
        if times < 1:
            raise BadArgumentError("wrong_value", f"expected_replacements is {times}")
        rest = {**given.rest(), "expected_replacements": times} if times > 1 else given.rest()
        return Edit((Replace(path, edit.old, edit.new, times > 1),), rest)
    return Edit((edit,), given.rest())


def _several(path: str, edits: object) -> list[FileEdit]:
    if not isinstance(edits, list):
        raise BadArgumentError("wrong_type", f"edits is a {type(edits).__name__}, not a list")
    if not edits:
        raise BadArgumentError("missing_argument", "edits is empty")
    return [_one_of_several(path, each) for each in edits]


def _one_of_several(path: str, edit: object) -> Replace:
    if not isinstance(edit, dict):
        raise BadArgumentError("wrong_type", f"an edit is a {type(edit).__name__}, not an object")
    each = Arguments("replace", "edit", edit, None)
    found = replacement(path, each)
    left = each.rest()
    if left:
        raise BadArgumentError("unknown_argument", f"an edit has {next(iter(left))!r:.60}")
    return found


def edit_file_action(given: Arguments) -> Edit:
    """One name, two tools: a text for another, or a draft of some lines (1 to the end where the call names none)."""
    if given.has("old") or not given.has("content"):
        return replace_action(given)
    path = given.filled("path")
    first, last = given.number("first"), given.number("last")
    text = given.text("content")
    end = None if last in (None, -1) else last
    start = 1 if first is None else first
    if start < 1 or (end is not None and end < start):
        raise BadArgumentError("wrong_value", f"lines {start} to {end}")
    return Edit((ReplaceLines(path, start, end, text),), given.rest())


def write_action(given: Arguments) -> Edit:
    return Edit((Write(given.filled("path"), given.text("content")),), given.rest())


def patch_action(given: Arguments) -> Edit:
    return Edit(patch_edits(given.filled("patch")), given.rest())


def patch_edits(text: str, folder: str = "") -> tuple[FileEdit, ...]:
    """The edits of a patch whose paths are relative to `folder`."""
    try:
        edits = parse_codex_patch(text) if PATCH_ENVELOPE in text else parse_unified_diff(text)
    except PatchError as error:
        raise BadArgumentError("bad_patch", f"patch does not parse: {error.message}") from error
    if not edits:
        raise BadArgumentError("bad_patch", "patch changes nothing")
    return tuple(_under(folder, edit) for edit in edits) if folder else tuple(edits)


def _under(folder: str, edit: FileEdit) -> FileEdit:
    path = posixpath.join(folder, edit.path)
    if isinstance(edit, Move):
        return replace(edit, path=path, to=posixpath.join(folder, edit.to))
    if isinstance(edit, Hunks) and edit.move_to is not None:
        return replace(edit, path=path, move_to=posixpath.join(folder, edit.move_to))
    return replace(edit, path=path)
