"""Paths compared as text: the file system is not there.

Rules   `.`, doubled slashes, a trailing slash and `a/..` are resolved lexically: symbolic links are taken not to lead
        elsewhere. A relative path is resolved under the working directory when that is known; otherwise it equals
        relative paths only.
"""

import posixpath
from dataclasses import replace

from paddock.edits import Edit as FileEdit
from paddock.edits import Hunks, Move
from paddock.tools import Edit


def resolve(path: str | None, cwd: str | None) -> str:
    """Return the normal form of a path; None is the working directory itself."""
    joined = posixpath.join(cwd or "", path or ".")
    normal = posixpath.normpath(joined)
    return normal[1:] if normal.startswith("//") else normal


def levels_above(outer: str, inner: str) -> int | None:
    """Count how many directories `outer` is above `inner`, both resolved; 0: the same. None: it does not hold it.

    The root of the file system is above nothing: it holds far more than any tree that is worked on.
    """
    if outer == inner:
        return 0
    if outer == "/":
        return None
    if outer == "." and not inner.startswith(("/", "..")):
        return inner.count("/") + 1
    prefix = outer + "/"
    return inner[len(prefix) :].count("/") + 1 if inner.startswith(prefix) else None


def resolve_edits(action: Edit, cwd: str | None) -> list[FileEdit]:
    """Return the action's edits with their paths resolved."""
    return [_resolve_edit(edit, cwd) for edit in action.edits]


def _resolve_edit(edit: FileEdit, cwd: str | None) -> FileEdit:
    path = resolve(edit.path, cwd)
    if isinstance(edit, Move):
        return replace(edit, path=path, to=resolve(edit.to, cwd))
    if isinstance(edit, Hunks) and edit.move_to is not None:
        return replace(edit, path=path, move_to=resolve(edit.move_to, cwd))
    return replace(edit, path=path)
