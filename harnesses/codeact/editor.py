"""The file editor: view, create, str_replace, insert and undo_edit on the files of a workspace.

Source  the file editor of openhands-tools 1.58.0, measured; so are its texts. Other than there, an image is not shown:
        it is binary.
Match   a text that is not there verbatim is looked for without the blanks around it.
Undo    as many edits of a file as `max_undo` says; the undoing of `create` leaves what was created.
Errors  `EditorError` carries the program's words. A failure of the workspace is raised as it is.
"""

import errno
import os
from collections import defaultdict, deque
from pathlib import PurePosixPath
from typing import ClassVar, NamedTuple

from paddock.harness import Workspace
from paddock.harnesses.codeact.errors import BinaryFileError, EditorError, invalid, missing
from paddock.harnesses.codeact.folders import listing
from paddock.harnesses.codeact.texts import (
    FILE_NOTICE,
    FileText,
    clip,
    decode_file,
    encode_file,
    lines_of,
    normalise_newlines,
    number_lines,
)

CONTEXT_LINES = 4
"""Shown around an edit."""
MAX_FILE_MIB = 10


class EditorCall(NamedTuple):
    """One call. None: not given."""

    command: str
    path: str
    file_text: str | None = None
    old_str: str | None = None
    new_str: str | None = None
    insert_line: int | None = None
    view_range: list[int] | None = None


class Editor:
    """The editor of one rollout; it remembers edits for `undo_edit`."""

    COMMANDS: ClassVar[tuple[str, ...]] = ("view", "create", "str_replace", "insert", "undo_edit")

    def __init__(self, workspace: Workspace, *, max_chars: int, max_undo: int) -> None:
        """`max_chars`: of a file or folder that is shown."""
        self._workspace = workspace
        self._max_chars = max_chars
        self._history: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=max_undo))

    async def run(self, call: EditorCall) -> str:
        """Do one call and return the program's text. Raises EditorError."""
        path = str(PurePosixPath(call.path))
        if not path.startswith("/"):
            raise await self._relative(path)
        data = await self._read(path)
        if call.command == "create":
            return await self._create(path, call.file_text, exists=data is not None)
        if data is None:
            raise invalid("path", path, f"The path {path} does not exist. Please provide a valid path.")
        if isinstance(data, _Directory):
            return await self._folder(path, call)
        match call.command:
            case "view":
                return self._view(path, _text(path, data), call.view_range)
            case "str_replace":
                return await self._replace(path, data, call)
            case "insert":
                return await self._insert(path, data, call)
        return await self._undo(path, data)

    async def _relative(self, path: str) -> EditorError:
        there = f"{self._workspace.workdir.rstrip('/')}/{path}"
        hint = f" Maybe you meant {there}?" if await self._read(there) is not None else ""
        return invalid("path", path, f"The path should be an absolute path.{hint}")

    async def _folder(self, path: str, call: EditorCall) -> str:
        if call.command != "view":
            only = "is a directory and only the `view` command can be used on directories."
            raise invalid("path", path, f"The path {path} {only}")
        if call.view_range:
            why = "The `view_range` parameter is not allowed when `path` points to a directory."
            raise invalid("view_range", call.view_range, why)
        return await listing(self._workspace, path, max_chars=self._max_chars)

    def _view(self, path: str, text: str, view_range: list[int] | None) -> str:
        if not view_range:
            return number_lines(text, 1, path, self._max_chars)
        lines = lines_of(text)
        count = len(lines)
        if len(view_range) != 2:
            raise invalid("view_range", view_range, "It should be a list of two integers.")
        first, last = view_range
        if not 1 <= first <= count:
            within = f"should be within the range of lines of the file: {[1, count]}."
            raise invalid("view_range", view_range, f"Its first element `{first}` {within}")
        note = ""
        if last > count:
            note = f"NOTE: We only show up to {count} since there're only {count} lines in this file.\n"
        last = count if last == -1 or last > count else last
        if last < first:
            more = f"should be greater than or equal to the first element `{first}`."
            raise invalid("view_range", view_range, f"Its second element `{last}` {more}")
        return note + number_lines("".join(lines[first - 1 : last]), first, path, self._max_chars)

    async def _create(self, path: str, text: str | None, *, exists: bool) -> str:
        if exists:
            raise invalid(
                "path", path, f"File already exists at: {path}. Cannot overwrite files using command `create`."
            )
        if text is None:
            raise missing("create", "file_text")
        folder = await self._read(str(PurePosixPath(path).parent))
        if not isinstance(folder, _Directory):
            code = errno.ENOENT if folder is None else errno.ENOTDIR
            raise EditorError(f"Ran into [Errno {code}] {os.strerror(code)}: '{path}' while trying to write to {path}")
        await self._write(path, text.encode())
        self._history[path].append(text)
        return f"File created successfully at: {path}"

    async def _replace(self, path: str, data: bytes, call: EditorCall) -> str:
        old, new = call.old_str, call.new_str
        if old is None or new is None:
            raise missing("str_replace", "old_str" if old is None else "new_str")
        if old == new:
            why = "No replacement was performed. `new_str` and `old_str` must be different."
            raise invalid("new_str", new, why)
        file = _file(path, data)
        before = file.text
        starts = _starts(before, old)
        if not starts:
            old = old.strip()
            starts = _starts(before, old)
        if not starts:
            raise EditorError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
        numbers = _line_numbers(before, starts)
        if len(starts) > 1:
            often = f"Multiple occurrences of old_str `{old}` in lines {numbers}. Please ensure it is unique."
            raise EditorError(clip(f"No replacement was performed. {often}", self._max_chars, FILE_NOTICE))
        after = before[: starts[0]] + new + before[starts[0] + len(old) :]
        await self._save(path, file, after)
        shown = self._snippet(after, numbers[0] - CONTEXT_LINES, numbers[0] + CONTEXT_LINES + new.count("\n"), path)
        return f"{shown}Review the changes and make sure they are as expected. Edit the file again if necessary."

    async def _insert(self, path: str, data: bytes, call: EditorCall) -> str:
        after_line, new = call.insert_line, call.new_str
        if after_line is None or new is None:
            raise missing("insert", "insert_line" if after_line is None else "new_str")
        file = _file(path, data)
        lines = lines_of(file.text)
        if not 0 <= after_line <= len(lines):
            within = f"It should be within the range of allowed values: {[0, len(lines)]}"
            raise invalid("insert_line", after_line, within)
        after = "".join([*lines[:after_line], f"{new}\n", *lines[after_line:]])
        await self._save(path, file, after)
        last = after_line + CONTEXT_LINES + new.count("\n") + 1
        shown = self._snippet(after, after_line - CONTEXT_LINES, last, path, "the edited file")
        return (
            f"{shown}Review the changes and make sure they are as expected (correct indentation, no duplicate lines, "
            "etc). Edit the file again if necessary."
        )

    async def _undo(self, path: str, data: bytes) -> str:
        if not self._history[path]:
            raise EditorError(f"No edit history found for {path}.")
        text = self._history[path].pop()
        await self._write(path, encode_file(text, _file(path, data).encoding))
        return f"Last edit to {path} undone successfully. {number_lines(text, 1, path, self._max_chars)}"

    async def _save(self, path: str, before: FileText, after: str) -> None:
        await self._write(path, encode_file(after, before.encoding))
        self._history[path].append(before.text)

    def _snippet(self, text: str, start: int, end: int, path: str, of: str | None = None) -> str:
        """Lines after `start`, to `end`."""
        start = max(0, start)
        part = "".join(lines_of(normalise_newlines(text))[start:end])
        heading = f"a snippet of {of or path}"
        return f"The file {path} has been edited. {number_lines(part, start + 1, heading, self._max_chars)}"

    async def _read(self, path: str) -> "bytes | _Directory | None":
        """None: there is nothing."""
        if "\0" in path:
            return None
        try:
            return await self._workspace.read(path)
        except IsADirectoryError:
            return _Directory()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise EditorError(f"Ran into {_os_error(error, path)} while trying to read {path}") from error

    async def _write(self, path: str, data: bytes) -> None:
        try:
            await self._workspace.write(path, data)
        except OSError as error:
            raise EditorError(f"Ran into {_os_error(error, path)} while trying to write to {path}") from error


class _Directory:
    """Stands for the content of a path that is a directory."""


def _file(path: str, data: bytes) -> FileText:
    if len(data) > MAX_FILE_MIB << 20:
        size = f"File is too large ({len(data) / (1 << 20):.1f}MB). Maximum allowed size is {MAX_FILE_MIB}MB."
        raise EditorError(f"File validation failed for {path}: {size}")
    file = decode_file(data)
    if file is None:
        binary = "File appears to be binary and this file type cannot be read or edited by this tool."
        raise BinaryFileError(f"File validation failed for {path}: {binary}")
    return file


def _text(path: str, data: bytes) -> str:
    return _file(path, data).text


def _os_error(error: OSError, path: str) -> str:
    return f"[Errno {error.errno}] {os.strerror(error.errno or 0)}: '{path}'"


def _starts(text: str, part: str) -> list[int]:
    """Where it stands, without overlaps."""
    starts: list[int] = []
    at = text.find(part)
    while 0 <= at <= len(text):
        starts.append(at)
        at = text.find(part, at + max(1, len(part)))
    return starts


def _line_numbers(text: str, starts: list[int]) -> list[int]:
    """Of the lines where something starts, each once."""
    numbers: list[int] = []
    line, at = 1, 0
    for start in starts:
        line += text.count("\n", at, start)
        at = start
        if not numbers or numbers[-1] != line:
            numbers.append(line)
    return numbers
