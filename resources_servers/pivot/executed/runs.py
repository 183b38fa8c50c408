"""Runs actions in a fresh sandbox of a step, and says what they left and what they showed.

Tools   a command by `bash -c`, each in a shell of its own; an edit on the files that it names, as its tool would; a
        read, a listing and a search of text by what the harness's tools show of the same.
Files   what differs from the step's image afterwards, with content and mode, but for `ignored_paths`.
Errors  SandboxError is the machine's. A budget that is used up, a time limit and an edit that is refused are results.
"""

import fnmatch
import hashlib
import posixpath
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paddock.edits import Edit as FileEdit
from paddock.edits import EditError, Hunks, Move, apply
from paddock.resources_servers.pivot.executed.options import ExecutedOptions
from paddock.resources_servers.pivot.executed.step import StepSnapshot
from paddock.resources_servers.pivot.semantic.paths import resolve, resolve_edits
from paddock.sandbox import BudgetExceeded, ExecRequest, ExecResult, PathChange, Provider, SandboxSpec
from paddock.tools import Action, Edit, ListFolder, ReadFile, Search, ShellCommand

Runnable = ShellCommand | Edit | ReadFile | ListFolder | Search
_STATS_AT_ONCE = 200
_OWN_TIMEOUT_S = 30.0
_MIB = 1 << 20
ACTION_ENV = {
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "a"), ("EMAIL", "a@b"))
    },
    "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z",
    "LANG": "C.UTF-8",
}
"""Equal commits are equal files with it, and programs read text as UTF-8, as tools that look at files do."""


@dataclass(frozen=True, slots=True)
class ActionRun:
    """What a row of actions did."""

    files: Mapping[str, str]
    """Path to what is there, as kind, mode and a hash of the content; of a path that is gone, `removed`."""
    shown: str
    """What the calls printed, one after the other."""
    failed: bool = False
    """A command ended with another status than 0."""
    problem: str = ""
    """Why it did not come to its end: a time limit, a budget, a refused edit. Empty: it did."""


class TooLargeError(Exception):
    """A file that results is larger than `max_file_mib`."""


def is_runnable(action: Action | None) -> bool:
    """Whether an action can be run here. A search for names is not: tools order and cut what they find."""
    return isinstance(action, Runnable) and not (isinstance(action, Search) and action.mode == "files")


async def run_actions(
    provider: Provider, step: StepSnapshot, actions: Sequence[Action], options: ExecutedOptions
) -> ActionRun:
    """Run the actions one after the other in one fresh sandbox of the step, which is gone at the end."""
    spec = SandboxSpec(image=step.image, workdir=step.workdir, env=ACTION_ENV, limits=options.limits, purpose="grading")
    handle = await provider.create(spec, request_id=uuid.uuid4().hex)
    runner = ActionRunner(provider, handle.sandbox_id, step.workdir, options)
    try:
        return await runner.run(actions)
    except BudgetExceeded as over:
        return ActionRun({}, "", problem=f"over its budget: {over.message}")
    finally:
        await provider.destroy(handle.sandbox_id)


class CallRefusedError(Exception):
    """A call that its tool would refuse, or that ran for too long."""


class ActionRunner:
    """Runs actions in one live sandbox, all within `timeout_s` from its making on."""

    def __init__(self, provider: Provider, sandbox_id: str, workdir: str, options: ExecutedOptions) -> None:
        self._provider = provider
        self._id = sandbox_id
        self._workdir = workdir
        self._options = options
        self._deadline = time.monotonic() + options.timeout_s
        self._failed = False

    async def run(self, actions: Sequence[Action]) -> ActionRun:
        shown: list[str] = []
        try:
            for action in actions:
                shown.append(await self.show(action))
        except CallRefusedError as refusal:
            return ActionRun(await self._files(), "\n".join(shown), self._failed, str(refusal))
        return ActionRun(await self._files(), "\n".join(shown), self._failed)

    async def show(self, action: Action) -> str:
        """Run one action and return what it printed; CallRefusedError where its tool refuses it or its time is up."""
        match action:
            case ShellCommand():
                return await self._exec(["bash", "-c", action.command], action.workdir)
            case Edit():
                return await self._edit(resolve_edits(action, self._workdir))
            case ReadFile():
                return await self._read(action)
            case ListFolder():
                return await self._exec(["ls", "-1", resolve(action.path, self._workdir)])
            case Search():
                kind = "-F" if action.literal else "-E"
                include = [f"--include={action.include}"] if action.include else []
                where = resolve(action.path, self._workdir)
                return await self._exec(["grep", "-rnI", kind, *include, "-e", action.pattern, "--", where])
            case _:
                raise AssertionError(f"{action!r:.80} is not runnable")

    async def _exec(self, argv: Sequence[str], workdir: str | None = None) -> str:
        """Run a command of an action, within what is left of its time."""
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise CallRefusedError(f"not done within {self._options.timeout_s:g} s")
        result = await self._result(argv, resolve(workdir, self._workdir), left_s)
        if result.killed_by is not None:
            raise CallRefusedError(f"killed ({result.killed_by}) after {result.duration_s:.1f} s")
        self._failed = self._failed or result.exit_code != 0
        return bytes(result.stdout).decode(errors="replace")

    async def _ask(self, argv: Sequence[str]) -> str:
        """Run a command of our own, which is no part of an action."""
        return bytes((await self._result(argv, "/", _OWN_TIMEOUT_S)).stdout).decode(errors="replace")

    async def _result(self, argv: Sequence[str], workdir: str, timeout_s: float) -> ExecResult:
        request = ExecRequest(argv=list(argv), workdir=workdir, timeout_s=timeout_s, merge_stderr=True)
        return await self._provider.exec(self._id, request, request_id=uuid.uuid4().hex)

    async def _read(self, action: ReadFile) -> str:
        path = resolve(action.path, self._workdir)
        try:
            data = await self._provider.read(self._id, path, max_bytes=self._options.max_file_mib * _MIB)
        except IsADirectoryError:
            return await self._exec(["ls", "-1", path])
        except OSError as error:
            raise CallRefusedError(f"{path}: {error.strerror}") from error
        lines = data.decode(errors="replace").split("\n")
        return "\n".join(lines[action.first_line - 1 : action.last_line])

    async def _edit(self, edits: Sequence[FileEdit]) -> str:
        before: dict[str, str] = {}
        for path in {path for edit in edits for path in _paths_of(edit)}:
            try:
                data = await self._provider.read(self._id, path, max_bytes=self._options.max_file_mib * _MIB)
                before[path] = data.decode()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, UnicodeDecodeError) as error:
                raise CallRefusedError(f"{path}: {error}") from error
        try:
            after = apply(edits, before)
        except EditError as error:
            raise CallRefusedError(f"the edit is refused: {error}") from error
        for path, text in after.items():
            if before.get(path) != text:
                await self._provider.write(self._id, path, text.encode())
        removed = sorted(before.keys() - after.keys())
        if removed:
            await self._ask(["rm", "--", *removed])
        return ""

    async def _files(self) -> dict[str, str]:
        changes = [change for change in await self._provider.changes(self._id) if not self._is_ignored(change.path)]
        modes = await self._modes([change.path for change in changes if change.kind != "removed"])
        return {change.path: await self._state(change, modes.get(change.path, "")) for change in changes}

    def _is_ignored(self, path: str) -> bool:
        return any(fnmatch.fnmatchcase(path, pattern) for pattern in self._options.ignored_paths)

    async def _modes(self, paths: Sequence[str]) -> dict[str, str]:
        """Return of each path its type and mode, by the image's `stat`."""
        modes: dict[str, str] = {}
        for start in range(0, len(paths), _STATS_AT_ONCE):
            some = paths[start : start + _STATS_AT_ONCE]
            modes.update(zip(some, (await self._ask(["stat", "-c", "%f", "--", *some])).split(), strict=False))
        return modes

    async def _state(self, change: PathChange, mode: str) -> str:
        if change.kind == "removed":
            return "removed"
        if change.type == "symlink":
            return f"symlink to {await self._ask(['readlink', '--', change.path])}"
        if change.type != "file":
            return f"{change.type} {mode}"
        if change.size_bytes > self._options.max_file_mib * _MIB:
            raise TooLargeError(change.path)
        data = await self._provider.read(self._id, change.path)
        return f"{change.type} {mode} {hashlib.sha256(data).hexdigest()}"


def _paths_of(edit: FileEdit) -> list[str]:
    if isinstance(edit, Move):
        return [edit.path, edit.to]
    if isinstance(edit, Hunks) and edit.move_to is not None:
        return [edit.path, edit.move_to]
    return [posixpath.normpath(edit.path)]
