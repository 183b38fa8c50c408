"""Calls of tools that read: show a file, search, list a directory.

Source  view of the editors (`view_range`, from 1, -1 is the end); read of OpenCode, Claude Code and pi and read_file of
        Codex (`offset` from 1); read_file of qwen-code and OpenHands' Gemini preset (`offset` from 0).
Rules   where names and arguments of two families are alike, the row's own schema tells them apart: an offset whose
        description says 0-based counts from 0. A limit of READ_LIMIT_LINES or more is no limit: no tool shows more.
"""

from dataclasses import replace

from paddock.tools.actions import ListFolder, ReadFile, Search
from paddock.tools.arguments import BadArgumentError, CallArguments, integer, properties_of
from paddock.types import Json

READ_LIMIT_LINES = 2000
"""Lines that reading tools show at most where the call gives no limit."""

ZERO_BASED = ("0-based", "zero-based", "0-indexed", "zero-indexed")
"""How a schema says that its offset counts from 0."""


def read_action(call: CallArguments) -> ReadFile:
    action = _read_action(call)
    return replace(action, shows_folders=False) if "file" in call.name.lower() else action


def _read_action(call: CallArguments) -> ReadFile:
    path = call.required_text("path")
    view_range = call.read_key("view_range")
    if view_range is not None:
        return ReadFile(path, *line_range(view_range), call.rest())
    first, last = call.number("first"), call.number("last")
    if first is not None or last is not None:
        return ReadFile(path, *line_range([1 if first is None else first, -1 if last is None else last]), call.rest())
    offset, limit = call.count("offset"), call.count("limit")
    if (offset is not None and offset < 0) or (limit is not None and limit < 1):
        raise BadArgumentError("wrong_value", f"offset {offset}, limit {limit}")
    start = 1 if offset is None else offset + 1 if _from_zero(call) else max(offset, 1)
    bounded = limit is not None and limit < READ_LIMIT_LINES
    return ReadFile(path, start, start + limit - 1 if limit is not None and bounded else None, call.rest())


def _from_zero(call: CallArguments) -> bool:
    offset = properties_of(call.schema or {}).get("offset")
    description = offset.get("description") if isinstance(offset, dict) else None
    return isinstance(description, str) and any(word in description.lower() for word in ZERO_BASED)


def line_range(value: Json) -> tuple[int, int | None]:
    """First and last line of a `view_range`."""
    if value is None:
        return 1, None
    if not isinstance(value, list) or len(value) != 2:
        raise BadArgumentError("wrong_type", f"view_range is {value!r:.40}, not two line numbers")
    first, last = integer("view_range", value[0]), integer("view_range", value[1])
    if first < 1 or (last < first and last != -1):
        raise BadArgumentError("wrong_value", f"view_range is [{first}, {last}]")
    return first, None if last == -1 else last


def grep_action(call: CallArguments) -> Search:
    return Search(
        call.required_text("pattern"),
        "content",
        path=call.optional_text("folder") or None,
        include=call.optional_text("include") or None,
        literal=call.flag("literal"),
        rest=call.rest(),
    )


def glob_action(call: CallArguments) -> Search:
    return Search(call.required_text("pattern"), "files", path=call.optional_text("folder") or None, rest=call.rest())


def list_action(call: CallArguments) -> ListFolder:
    return ListFolder(call.optional_text("folder") or None, call.rest())
