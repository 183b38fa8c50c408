"""Calls of tools that look: read a file, search, list a directory.

Source  view of the editors (`view_range`, from 1, -1 is the end); read of OpenCode, Claude Code and pi and read_file of
        Codex (`offset` from 1); read_file of qwen-code and OpenHands' Gemini preset (`offset` from 0).
Rules   where names and arguments of two families are alike, the row's own schema tells them apart: an offset whose
        description says 0-based counts from 0. A limit of READ_LIMIT_LINES or more is no limit: no tool shows more.
"""

from paddock.tools.actions import List, Read, Search
from paddock.tools.arguments import Arguments, BadArgumentError, integer
from paddock.tools.schema import properties_of
from paddock.types import Json

READ_LIMIT_LINES = 2000
"""What reading tools show at most where the call does not say."""

ZERO_BASED = ("0-based", "zero-based", "0-indexed", "zero-indexed")
"""How a schema says that its offset counts from 0."""


def read_action(given: Arguments) -> Read:
    path = given.filled("path")
    view_range = given.take("view_range")
    if view_range is not None:
        return Read(path, *line_range(view_range), given.rest())
    first, last = given.number("first"), given.number("last")
    if first is not None or last is not None:
        return Read(path, *line_range([1 if first is None else first, -1 if last is None else last]), given.rest())
    offset, limit = given.count("offset"), given.count("limit")
    if (offset is not None and offset < 0) or (limit is not None and limit < 1):
        raise BadArgumentError("wrong_value", f"offset {offset}, limit {limit}")
    start = 1 if offset is None else offset + 1 if _from_zero(given) else max(offset, 1)
    bounded = limit is not None and limit < READ_LIMIT_LINES
    return Read(path, start, start + limit - 1 if limit is not None and bounded else None, given.rest())


def _from_zero(given: Arguments) -> bool:
    offset = properties_of(given.schema or {}).get("offset")
    said = offset.get("description") if isinstance(offset, dict) else None
    return isinstance(said, str) and any(word in said.lower() for word in ZERO_BASED)


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


def grep_action(given: Arguments) -> Search:
    return Search(
        given.filled("pattern"),
        "content",
        path=given.maybe("folder") or None,
        include=given.maybe("include") or None,
        literal=given.flag("literal"),
        rest=given.rest(),
    )


def glob_action(given: Arguments) -> Search:
    return Search(given.filled("pattern"), "files", path=given.maybe("folder") or None, rest=given.rest())


def list_action(given: Arguments) -> List:
    return List(given.maybe("folder") or None, given.rest())
