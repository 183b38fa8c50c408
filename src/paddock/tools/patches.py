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
from paddock.tools.actions import Edit, ReadFile
from paddock.tools.arguments import BadArgumentError, CallArguments
from paddock.tools.read_tools import line_range

PATCH_ENVELOPE = "*** Begin Patch"


def editor_action(call: CallArguments) -> Edit | ReadFile:
    command = call.required_text("command")
    path = call.required_text("path")
    if command == "view":
        return ReadFile(path, *line_range(call.read_key("view_range")), call.rest())
    edit: FileEdit
    if command == "create":
        edit = Write(path, call.text("content"), create_only=True)
    elif command == "str_replace":
        edit = replacement(path, call, optional_new=True)
    elif command == "insert":
        line = call.number("insert_line")
        if line is None:
            raise BadArgumentError("missing_argument", "no insert_line")
        if line < 0:
            raise BadArgumentError("wrong_value", f"insert_line is {line}")
        edit = Insert(path, line, call.text("new"))
    elif command == "undo_edit":
        edit = Undo(path)
    else:
        raise BadArgumentError("wrong_value", f"command {command!r:.40} is none of the editor's")
    return Edit((edit,), call.rest())


def replacement(path: str, call: CallArguments, *, optional_new: bool = False) -> Replace:
    old = call.text("old")
    if not old:
        raise BadArgumentError("missing_argument", "the text to replace is empty")
    new = call.optional_text("new") if optional_new else call.text("new")
    return require_change(Replace(path, old, new or "", call.flag("all")))


def require_change(edit: Replace) -> Replace:
    if edit.old == edit.new:
        raise BadArgumentError("wrong_value", "old and new text are equal: nothing would change")
    return edit


def replace_action(call: CallArguments) -> Edit:
    path = call.required_text("path")
    several = call.read_key("edits")
    if several is not None:
        return Edit(tuple(_edit_list(path, several)), call.rest())
    if call.has("old") and not call.text("old"):
        return Edit((Write(path, call.text("new"), create_only=True),), call.rest())
    edit = replacement(path, call)
    if call.read_key("expected_replacements") is not None:
        times = call.count("expected_replacements") or 0
        if times < 1:
            raise BadArgumentError("wrong_value", f"expected_replacements is {times}")
        rest = {**call.rest(), "expected_replacements": times} if times > 1 else call.rest()
        return Edit((Replace(path, edit.old, edit.new, times > 1),), rest)
    return Edit((edit,), call.rest())


def _edit_list(path: str, edits: object) -> list[FileEdit]:
    if not isinstance(edits, list):
        raise BadArgumentError("wrong_type", f"edits is a {type(edits).__name__}, not a list")
    if not edits:
        raise BadArgumentError("missing_argument", "edits is empty")
    return [_listed_edit(path, edit) for edit in edits]


def _listed_edit(path: str, edit: object) -> Replace:
    if not isinstance(edit, dict):
        raise BadArgumentError("wrong_type", f"an edit is a {type(edit).__name__}, not an object")
    arguments = CallArguments("replace", "edit", edit, None)
    replace = replacement(path, arguments)
    unknown = arguments.rest()
    if unknown:
        raise BadArgumentError("unknown_argument", f"an edit has {next(iter(unknown))!r:.60}")
    return replace


def edit_file_action(call: CallArguments) -> Edit:
    """Two tools have this name: one replaces a text, the other lines (1 to the end where the call names none)."""
    if call.has("old") or not call.has("content"):
        return replace_action(call)
    path = call.required_text("path")
    first, last = call.number("first"), call.number("last")
    text = call.text("content")
    end = None if last in (None, -1) else last
    start = 1 if first is None else first
    if start < 1 or (end is not None and end < start):
        raise BadArgumentError("wrong_value", f"lines {start} to {end}")
    return Edit((ReplaceLines(path, start, end, text),), call.rest())


def write_action(call: CallArguments) -> Edit:
    return Edit((Write(call.required_text("path"), call.text("content")),), call.rest())


def patch_action(call: CallArguments) -> Edit:
    return Edit(patch_edits(call.required_text("patch")), call.rest())


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
