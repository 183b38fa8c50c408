"""Codex's apply_patch on a workspace's files, with its own words.

Source  by trial of Codex 0.169.0, its tool and not its command: the whole patch is first checked against the files as
        they are, one operation for each file; then it is made file by file. What fails then leaves the files before it
        changed.
Paths   from the workdir, or absolute, also outside of it; texts name them resolved, the list of changes as given.
Files   UTF-8 text. A changed file ends in a newline; modes stay, but a moved file is a new one.
Errors  none is raised for a patch that can't be made: `PatchResult.end` and a text. Those of the workspace are.
"""

import errno
import os
from collections.abc import Sequence
from dataclasses import replace
from posixpath import join, normpath
from typing import Literal, NamedTuple

from paddock.edits import Delete, Edit, EditError, Hunks, PatchError, Write, apply, parse_codex_patch
from paddock.harness import Workspace

_ENVIRONMENT = "*** Environment ID: "


class PatchResult(NamedTuple):
    """How a patch ended, and the text for the model."""

    text: str
    end: Literal["made", "failed", "refused"]
    """`refused`: before a file was touched; `failed`: after some may have been changed."""


class _PatchFailure(Exception):  # noqa: N818 - a text for the model
    """Why the patch can't be made."""


async def apply_patch(workspace: Workspace, patch: str, folder: str) -> PatchResult:
    """Apply a patch to the workspace. `folder`: the absolute path at which relative paths start."""
    try:
        edits = await _checked(workspace, patch.encode(errors="replace").decode(), folder)
    except _PatchFailure as failed:
        return PatchResult(str(failed), "refused")
    try:
        for edit in edits:
            await _make(workspace, edit, folder)
    except _PatchFailure as failed:
        return PatchResult(f"{failed}\n", "failed")
    kinds = sorted((_letter(edit), index) for index, edit in enumerate(edits))
    names = [f"{letter} {_named(edits[index])}\n" for letter, index in (("AMD"[kind], index) for kind, index in kinds)]
    return PatchResult("Success. Updated the following files:\n" + "".join(names), "made")


async def _checked(workspace: Workspace, patch: str, folder: str) -> Sequence[Edit]:
    lines = patch.strip().split("\n", 2)
    if len(lines) > 1 and lines[1].strip().startswith(_ENVIRONMENT):
        raise _PatchFailure("apply_patch environment selection is unavailable for this turn")
    try:
        edits = parse_codex_patch(patch)
    except PatchError as error:
        what = f"invalid hunk at line {error.line}, " if error.line else "invalid patch: "
        raise _PatchFailure(f"apply_patch verification failed: {what}{error.message}") from error
    if not edits:
        raise _PatchFailure("patch rejected: empty patch")
    targets: set[str] = set()
    try:
        for edit in edits:
            path = _resolved(edit.path, folder)
            if path in targets:
                raise _PatchFailure(f"invalid patch: multiple operations target {path}")
            targets.add(path)
            if isinstance(edit, Delete):
                await _text(workspace, path, "Failed to read")
            elif isinstance(edit, Hunks):
                _resolved(edit.move_to or "", folder)
                await _edited(workspace, edit, path)
    except _PatchFailure as failed:
        raise _PatchFailure(f"apply_patch verification failed: {failed}") from failed
    return edits


async def _make(workspace: Workspace, edit: Edit, folder: str) -> None:
    path = _resolved(edit.path, folder)
    match edit:
        case Write(text=text):
            await _write(workspace, path, text)
        case Delete():
            await _remove(workspace, path, f"Failed to delete file {path}")
        case Hunks(move_to=to):
            text = await _edited(workspace, edit, path)
            await _write(workspace, _resolved(to, folder) if to else path, text)
            if to:
                await _remove(workspace, path, f"Failed to remove original {path}")
        case _:
            raise TypeError(f"{type(edit).__name__} is nothing that a patch says")


def _resolved(path: str, folder: str) -> str:
    if "\0" in path:
        raise _PatchFailure(f"'{path}' is invalid on 'linux'")
    whole = normpath(join(folder, path))
    return whole[1:] if whole.startswith("//") else whole


def _letter(edit: Edit) -> int:
    return 0 if isinstance(edit, Write) else 2 if isinstance(edit, Delete) else 1


def _named(edit: Edit) -> str:
    return edit.move_to if isinstance(edit, Hunks) and edit.move_to else edit.path


async def _edited(workspace: Workspace, edit: Hunks, path: str) -> str:
    before = await _text(workspace, path, "Failed to read file to update")
    try:
        return apply([replace(edit, path=path, move_to=None)], {path: before})[path]
    except EditError as error:
        raise _PatchFailure(error.message) from error


async def _text(workspace: Workspace, path: str, failed: str) -> str:
    try:
        return (await workspace.read(path)).decode()
    except UnicodeDecodeError as error:
        size = error.end - error.start
        what = f"invalid utf-8 sequence of {size} bytes from index {error.start}"
        if error.reason == "unexpected end of data":
            what = f"incomplete utf-8 byte sequence from index {error.start}"
        raise _PatchFailure(f"{failed} {path}: {what}") from error
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.EINVAL):
            raise _PatchFailure(f"{failed} {path}: path `{path}` is not a file") from error
        raise _PatchFailure(f"{failed} {path}: {_system(error)}") from error


async def _write(workspace: Workspace, path: str, text: str) -> None:
    try:
        await workspace.write(path, text.encode())
    except OSError as error:
        raise _PatchFailure(f"Failed to write file {path}") from error


async def _remove(workspace: Workspace, path: str, failed: str) -> None:
    done = await workspace.exec(["rm", "--", path])
    if done.refused is not None:
        raise _PatchFailure(done.text())
    if done.exit_code != 0:
        raise _PatchFailure(failed)


def _system(error: OSError) -> str:
    number = error.errno or 0
    return f"{os.strerror(number)} (os error {number})"
