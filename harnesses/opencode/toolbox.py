"""The executors of opencode's tools, with its words for what went wrong.

Source  by trial of the program, version 1.18.33.
Paths   a relative one starts at the workdir. Where the program prints its own folders or random names, see `shell`.
Calls   a name in other letters' case is the tool's; a call that no tool can take is answered as the program answers it,
        but stays in the history as the model wrote it. What is wrong with its arguments is said in plain words, not in
        those of the program's JSON parser and schema library.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import PurePosixPath
from posixpath import basename, dirname, isabs, join, normpath
from typing import Any

from paddock.harness import RunLimits, Workspace
from paddock.harness.native import RawToolCall, Toolbox, ToolProfile
from paddock.harnesses.opencode import file_view, shell, text_edit
from paddock.harnesses.opencode.apply_patch import apply_patch
from paddock.harnesses.opencode.errors import ToolError
from paddock.harnesses.opencode.schema import checked_arguments
from paddock.harnesses.opencode.search import FAILED, Searcher, SearchLimits, folder_of
from paddock.tools import InvalidCall, decode_object
from paddock.types import JsonObject

INVALID = "The arguments provided to the tool are invalid: "
_LOOK = r"""
if [ -d "$1" ]; then echo folder; exit; fi
if [ -e "$1" ]; then echo file; exit; fi
shift
for parent; do
    if [ -e "$parent" ]; then [ -d "$parent" ] && echo none || echo below a file; exit; fi
done
echo none
"""
"""What a path is; its parents follow, the nearest first."""
_LIST = r"""
cd -- "$1" || exit
for name in * .*; do
    case $name in . | ..) continue ;; esac
    if [ -d "$name" ]; then printf '%s/\0' "$name"; continue; fi
    if [ -e "$name" ] || [ -L "$name" ]; then printf '%s\0' "$name"; fi
done
"""
Executor = Callable[..., Awaitable[str]]


def _worded(tool: Executor) -> Executor:
    """Make a tool return its ToolError as its result."""

    @wraps(tool)
    async def answered(*given: Any, **arguments: Any) -> str:
        try:
            return await tool(*given, **arguments)
        except ToolError as error:
            return str(error)

    return answered


class OpenCodeToolbox(Toolbox):
    def __init__(self, workspace: Workspace, limits: RunLimits, profile: ToolProfile) -> None:
        super().__init__(workspace, limits, profile)
        search = SearchLimits(self.option("search_matches"), self.option("line_chars"))
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By path: calls of one message run side by side, changes of one file do not."""
        self._searcher = Searcher(workspace, search, limits.tool_s)

    @_worded
    async def t_bash(self, command: str, timeout: int | None = None, workdir: str | None = None) -> str:
        timeout_ms: int = self.option("bash_timeout_ms") if timeout is None else timeout
        if self.limits.tool_s is not None:
            timeout_ms = min(timeout_ms, int(self.limits.tool_s * 1000))
        if workdir is not None:
            folder = self._path(workdir)
            kind = await self._kind(folder)
            if kind == "file":
                raise ToolError("ENOTDIR: not a directory, posix_spawn '/usr/bin/bash'")
            if kind != "folder":
                raise ToolError(f"NotFound: FileSystem.access ({folder})")
            command = f"cd -- {_quoted(folder)}; {command}" if folder != self.workspace.workdir else command
        done = await self.workspace.exec([self.option("shell"), "-c", command], timeout_s=timeout_ms / 1000)
        text, notice = shell.worded(done, timeout_ms)
        limits = shell.ShellLimits(
            self.option("output_lines"), self.option("output_bytes"), self.option("output_folder")
        )
        return await shell.shown(self.workspace, text, limits) + notice

    @_worded
    async def t_read(self, filePath: str, offset: int = 0, limit: int | None = None) -> str:  # noqa: N803
        path = self._path(filePath)
        lines = self.option("read_lines") if limit is None else limit
        match await self._kind(path):
            case "folder":
                return file_view.show_directory(path, await self._entries(path), offset, lines)
            case "none":
                folder = dirname(path)
                beside = await self._entries(folder) if await self._kind(folder) == "folder" else []
                names = [entry.rstrip("/") for entry in beside]
                return file_view.not_found(path, basename(path), folder, names)
            case "below a file":
                raise ToolError(f"BadResource: FileSystem.stat ({path})")
        limits = file_view.ViewLimits(lines, self.option("line_chars"), self.option("read_bytes"))
        return file_view.show_file(path, await self.workspace.read(path), offset, limits)

    @_worded
    async def t_edit(self, filePath: str, oldString: str, newString: str, replaceAll: bool = False) -> str:  # noqa: N803
        if not filePath:
            raise ToolError("filePath is required")
        if oldString == newString:
            raise ToolError(text_edit.SAME)
        path = self._path(filePath)
        async with self._locks[normpath(path)]:
            return await self._edited(path, oldString, newString, replace_all=replaceAll)

    async def _edited(self, path: str, old: str, new: str, *, replace_all: bool) -> str:
        kind = await self._kind(path)
        if old == "":
            if kind in ("file", "folder"):
                raise ToolError(text_edit.EMPTY)
            await self._put(path, new)
            return "Edit applied successfully."
        if kind != "file":
            reasons = {"folder": f"Path is a directory, not a file: {path}", "none": f"File {path} not found"}
            raise ToolError(reasons.get(kind, f"ENOTDIR: not a directory, lstat '{path}'"))
        before = (await self.workspace.read(path)).decode(errors="replace")
        await self._put(path, text_edit.edited_text(before, old, new, replace_all=replace_all))
        return "Edit applied successfully."

    @_worded
    async def t_write(self, content: str, filePath: str) -> str:  # noqa: N803
        path = self._path(filePath)
        async with self._locks[normpath(path)]:
            kind = await self._kind(path)
            if kind == "folder":
                raise ToolError(f"BadResource: FileSystem.readFile ({path})")
            if kind == "file" and (await self.workspace.read(path)).startswith(text_edit.BOM.encode()):
                content = text_edit.BOM + content.removeprefix(text_edit.BOM)
            await self._put(path, content)
        return "Wrote file successfully."

    @_worded
    async def t_glob(self, pattern: str, path: str | None = None) -> str:
        folder = self._path(path or ".")
        match await self._kind(folder):
            case "file":
                raise ToolError(f"glob path must be a directory: {folder}")
            case "folder":
                return await self._searcher.glob(folder, pattern)
        raise ToolError(FAILED)

    @_worded
    async def t_grep(self, pattern: str, path: str | None = None, include: str | None = None) -> str:
        if not pattern:
            raise ToolError("pattern is required")
        given = self._path(path or ".")
        folder = folder_of(given, is_folder=await self._kind(given) == "folder")
        return await self._searcher.grep(folder, pattern, include or "")

    async def t_todowrite(self, todos: list[JsonObject]) -> str:
        return json.dumps(todos, ensure_ascii=False, indent=2)

    @_worded
    async def t_apply_patch(self, patchText: str) -> str:  # noqa: N803
        return await apply_patch(self.workspace, patchText)

    def read_arguments(self, name: str, raw: str) -> JsonObject | InvalidCall:
        value = decode_object(raw if raw.strip() else "{}")
        return value if isinstance(value, InvalidCall) else checked_arguments(value, self._schemas[name])

    def resolve_name(self, shown: str) -> str | None:
        return shown.lower()

    def unknown_tool(self, call: RawToolCall) -> str:
        names = ", ".join(sorted([*self.shown.values(), "invalid"]))
        return f"{INVALID}Model tried to call unavailable tool '{call.shown}'. Available tools: {names}."

    def bad_json(self, shown: str, raw: str, problem: InvalidCall) -> str:
        if problem.reason == "not_object":
            return self.bad_arguments(shown, raw, problem)
        message = f"JSON parsing failed: Text: {raw}.\nError message: {problem.detail}"
        # A call whose name was put right is no `invalid` call any more.
        prefix = INVALID if shown == self._corrected_name(shown) else ""
        return f"{prefix}Invalid input for tool {self._corrected_name(shown)}: {message}"

    def bad_arguments(self, shown: str, raw: str, problem: InvalidCall) -> str:
        return (
            f"The {self._corrected_name(shown)} tool was called with invalid arguments: {problem.detail}.\n"
            "Please rewrite the input so it satisfies the expected schema."
        )

    def _corrected_name(self, shown: str) -> str:
        names = self.shown.values()
        return shown.lower() if shown not in names and shown.lower() in names else shown

    def _path(self, given: str) -> str:
        return given if isabs(given) else normpath(join(self.workspace.workdir, given))

    async def _kind(self, path: str) -> str:
        """`folder`, `file`, `none`, or `below a file`."""
        parents = [str(parent) for parent in PurePosixPath(path).parents]
        done = await self.workspace.exec(["sh", "-c", _LOOK, "sh", path, *parents])
        return done.output.decode(errors="replace").strip()

    async def _entries(self, folder: str) -> list[str]:
        done = await self.workspace.exec(["sh", "-c", _LIST, "sh", folder])
        return [name.decode(errors="replace") for name in done.output.split(b"\0") if name]

    async def _put(self, path: str, text: str) -> None:
        try:
            await self.workspace.write(path, text.encode())
        except (NotADirectoryError, FileExistsError) as error:
            raise ToolError(f"BadResource: FileSystem.writeFile ({path})") from error


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
