"""Git diffs from whole files before and after: what R2E-Gym keeps of a commit.

Shape   `parsed_commit_content`: `{"file_diffs": [{"header": {"file": {"path"}}, "old_file_content",
        "new_file_content", ...}]}`; a file that was added or removed has an empty or null side.
Gold    Python files that are no tests, as that dataset's own patch has it.
Errors  RowError names what the commit lacks.
"""

from collections.abc import Iterator, Mapping
from difflib import unified_diff
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from paddock.resources_servers.swe.rows.fields import field_error

KEY = "parsed_commit_content"


class FileVersions(NamedTuple):
    """One file's whole text before and after a commit; None: it is not there on that side."""

    path: str
    old: str | None
    new: str | None


def gold_patch(commit: Mapping[str, Any]) -> bytes:
    """The commit's changes to Python files that are no tests, as a git patch."""
    parts = [diff(change) for change in changes(commit) if change.path.endswith(".py") and not is_test(change.path)]
    if not any(parts):
        raise field_error(KEY, "changes no Python file beside tests: there is no gold patch in it")
    return b"".join(parts)


def changes(commit: Mapping[str, Any]) -> Iterator[FileVersions]:
    """Yield the files of a commit; RowError names what is missing."""
    listed = commit.get("file_diffs")
    if not isinstance(listed, list):
        raise field_error(KEY, "needs `file_diffs`, a list")
    for index, diff in enumerate(listed):
        if not isinstance(diff, Mapping):
            raise field_error(f"{KEY}.file_diffs[{index}]", "needs an object")
        if diff.get("is_binary_file"):
            continue
        path = _path(diff, f"{KEY}.file_diffs[{index}]")
        old, new = diff.get("old_file_content"), diff.get("new_file_content")
        added = _side(diff, "minus_file") == "/dev/null" or (old is None)
        removed = _side(diff, "plus_file") == "/dev/null" or (new is None)
        yield FileVersions(path, None if added else str(old), None if removed else str(new))


def is_test(path: str) -> bool:
    parts = PurePosixPath(path)
    in_folder = any(part in ("test", "tests", "testing", "e2e") for part in parts.parts[:-1])
    return in_folder or parts.name.startswith("test_") or parts.stem.endswith("_test") or parts.stem == "tests"


def diff(change: FileVersions) -> bytes:
    """Make one file's section of a git patch; empty where nothing changed."""
    if change.old == change.new:
        return b""
    head = [f"diff --git a/{change.path} b/{change.path}\n"]
    if change.old is None:
        head.append("new file mode 100644\n")
    if change.new is None:
        head.append("deleted file mode 100644\n")
    lines = unified_diff(
        _lines(change.old),
        _lines(change.new),
        "/dev/null" if change.old is None else f"a/{change.path}",
        "/dev/null" if change.new is None else f"b/{change.path}",
    )
    body = [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]
    return "".join(head + body).encode("utf-8", "surrogateescape")


def _lines(text: str | None) -> list[str]:
    """Split a text as git does: only a line feed ends a line."""
    return [] if not text else [f"{line}\n" for line in text[:-1].split("\n")] if text.endswith("\n") else _open(text)


def _open(text: str) -> list[str]:
    *whole, last = text.split("\n")
    return [*(f"{line}\n" for line in whole), last]


def _path(diff: Mapping[str, Any], key: str) -> str:
    header = diff.get("header")
    file = header.get("file") if isinstance(header, Mapping) else None
    path = file.get("path") if isinstance(file, Mapping) else None
    if not isinstance(path, str) or not path:
        raise field_error(f"{key}.header.file.path", "missing")
    return path


def _side(diff: Mapping[str, Any], key: str) -> str | None:
    file = diff.get(key)
    path = file.get("path") if isinstance(file, Mapping) else None
    return path if isinstance(path, str) else None
