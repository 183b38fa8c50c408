"""Level 1: does the call act on the expert's target?

Law     edit: same sub-command, same last two path components (of a patch: the same set of files), same line numbers, at
        least 80 % of the viewed lines. Search, find, list, read: same last three components; a read covers at least
        80 % of the expert's lines. Shell: same first word, and one path in common where the expert's command has any.
        Plan: same sub-command. Others have no target.
Units   line ranges are 1-based and inclusive; an end of -1, or no limit, is the end of the file: it needs an end of
        file, from a line no later.
"""

import json
import re
from typing import NamedTuple

from paddock.resources_servers.pivot.layered_fields import ArgumentField, ArgumentFields
from paddock.resources_servers.pivot.layered_kinds import PATH_COMPONENTS, Kind
from paddock.types import Json

MIN_COVERAGE = 0.8
SHELL_PATH_COMPONENTS = 3

_WORD_BREAK = re.compile(r"[\s'\"`()<>;|&=,]+")
_PATCH_FILE = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |(?:\+\+\+|---) (?:[ab]/)?)([^\t\r\n]+)", re.M
)


class _LineRange(NamedTuple):
    first: int
    last: int | None
    """None: the end of the file."""


def target_miss(kind: Kind, fields: ArgumentFields) -> str:
    """Say in one sentence what differs in the target; "": nothing."""
    if kind == "shell" and "command" in fields.needed:
        return _shell_miss(fields.expected_text("command"), fields.actual_text("command"))
    if kind == "plan":
        return _equal_miss(fields.needed.get("command"))
    if not fields.by_role:
        return ""
    for role in ("subcommand", "line", "start", "end"):
        if miss := _equal_miss(fields.needed.get(role)):
            return miss
    return _path_miss(kind, fields) or _patch_miss(fields) or _lines_miss(fields)


def _equal_miss(field: ArgumentField | None) -> str:
    if field is None or field.expected == field.actual:
        return ""
    return f"{field.name}: expected {field.expected!r}, got {str(field.actual)[:60]!r}"


def path_tail(path: str, components: int) -> str:
    """Return the last components of a path, with `.` and `..` resolved."""
    parts: list[str] = []
    for part in path.strip().split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts[-components:])


def _path_miss(kind: Kind, fields: ArgumentFields) -> str:
    expected, actual = fields.expected_text("path"), fields.actual_text("path")
    if path_tail(expected, PATH_COMPONENTS[kind]) == path_tail(actual, PATH_COMPONENTS[kind]):
        return ""
    return f"path: expected {expected[:120]!r}, got {actual[:120]!r}"


def _patch_miss(fields: ArgumentFields) -> str:
    if "path" in fields.needed:
        return ""
    expected, actual = _patch_files(fields.expected_text("content")), _patch_files(fields.actual_text("content"))
    return "" if expected == actual else f"patch: expected files {sorted(expected)}, got {sorted(actual)[:5]}"


def _patch_files(text: str) -> set[str]:
    return {path_tail(name, PATH_COMPONENTS["edit"]) for name in _PATCH_FILE.findall(text) if name != "/dev/null"}


def _lines_miss(fields: ArgumentFields) -> str:
    expected, actual = _lines(fields, expected_side=True), _lines(fields, expected_side=False)
    if expected is None or expected == actual or (actual is not None and _covers(expected, actual)):
        return ""
    return f"lines: expected {_show(expected)}, got {_show(actual) if actual else 'none'}"


def _lines(fields: ArgumentFields, *, expected_side: bool) -> _LineRange | None:
    def value(role: str) -> Json:
        field = fields.needed.get(role)
        return None if field is None else (field.expected if expected_side else field.actual)

    if "view_range" in fields.needed:
        return _view_range(value("view_range"))
    if "offset" not in fields.needed and "limit" not in fields.needed:
        return None
    first, count = value("offset") or 1, value("limit")
    if not isinstance(first, int) or not isinstance(count, int | None):
        return None
    return _LineRange(first, None if count is None else first + count - 1)


def _view_range(value: Json) -> _LineRange | None:
    try:
        first, last = json.loads(value) if isinstance(value, str) else value
        return _LineRange(int(first), None if int(last) == -1 else int(last))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


def _covers(expected: _LineRange, actual: _LineRange) -> bool:
    if expected.last is None:
        return actual.last is None and actual.first <= expected.first
    last = expected.last if actual.last is None else min(expected.last, actual.last)
    shared = last - max(expected.first, actual.first) + 1
    return shared >= MIN_COVERAGE * max(1, expected.last - expected.first + 1)


def _show(lines: _LineRange) -> str:
    return f"{lines.first} to {'the end' if lines.last is None else lines.last}"


def _shell_miss(expected: str, actual: str) -> str:
    first, other = _program(expected), _program(actual)
    if first != other:
        return f"command: expected {first[:60]!r}, got {other[:60]!r}"
    paths = _paths(expected)
    if paths and not paths & _paths(actual):
        return f"command: none of the paths {sorted(paths)[:5]}"
    return ""


def _program(command: str) -> str:
    words = command.split(maxsplit=1)
    return words[0].rsplit("/", 1)[-1] if words else ""


def _paths(command: str) -> set[str]:
    words = (word for word in _WORD_BREAK.split(command) if "/" in word and not word.startswith("-"))
    return {tail for word in words if (tail := path_tail(word, SHELL_PATH_COMPONENTS))}
