"""What a tool call asks to change in files, as the text of a diff; and which files a rollout changed, by which turns.

Law     a rollout has no state of its files beside its patch: of an edit the call's own texts are shown, with line
        numbers where it names them, and its result says whether it was made. What a shell command changed is not
        recorded.
Source  `paddock.tools.normalise`: every editing tool that it knows, and patches in a shell's command line.
Errors  none: a call that its tool would refuse changes nothing.
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from paddock.edits import (
    Delete,
    Edit,
    Hunk,
    Hunks,
    Insert,
    Move,
    PatchError,
    Replace,
    ReplaceLines,
    Undo,
    Write,
    parse_unified_diff,
    paths_of,
)
from paddock.tools import actions, normalise

COMPARED_LINES = 2000
"""Old and new lines together of which common ones are looked for."""
MAX_ARGUMENTS = 1 << 20
"""Characters of a call's arguments; a longer one is not looked into."""


class CallChange(NamedTuple):
    """What one call asks for."""

    diff: str
    """Empty: no edit of a file."""
    paths: frozenset[str]
    is_command: bool = False
    """Of a shell: what it changes is not recorded."""


NO_CHANGE = CallChange("", frozenset())


class ChangedFile(NamedTuple):
    """A file that the calls of a rollout edit, or its patch has."""

    path: str
    turns: list[int]
    """Turns whose calls edit it, from 1."""
    in_patch: bool


def call_change(name: str, arguments: str) -> CallChange:
    """What a call asks for. `arguments`: as the model wrote them."""
    action = normalise(name, arguments) if len(arguments) <= MAX_ARGUMENTS else None
    if isinstance(action, actions.ShellCommand | actions.Stdin):
        return CallChange("", frozenset(), is_command=True)
    if not isinstance(action, actions.Edit):
        return NO_CHANGE
    paths = frozenset(path for edit in action.edits for path in paths_of(edit))
    return CallChange("\n".join(line for edit in action.edits for line in _lines(edit)), paths)


def changed_files(changes: Sequence[Iterable[CallChange]], patch: str | None) -> list[ChangedFile]:
    """Files in the order in which they are first edited, then those of the patch that no call edits. `changes`: by
    turn."""
    turns: dict[str, list[int]] = {}
    for number, calls in enumerate(changes, 1):
        for path in sorted({path for call in calls for path in call.paths}):
            turns.setdefault(path, []).append(number)
    patched = _paths(patch or "")
    files = [ChangedFile(path, own, _named(path, patched) is not None) for path, own in turns.items()]
    edited = {_named(path, patched) for path in turns}
    return files + [ChangedFile(path, [], in_patch=True) for path in patched if path not in edited]


def _paths(patch: str) -> list[str]:
    try:
        edits = parse_unified_diff(patch)
    except PatchError:
        return []
    return list(dict.fromkeys(path for edit in edits for path in sorted(paths_of(edit))))


def _named(path: str, patched: Iterable[str]) -> str | None:
    """The path of a patch, relative to the repository, that a call means by `path`."""
    given = f"/{path}"
    return max((name for name in patched if given.endswith(f"/{name}")), key=len, default=None)


def _lines(edit: Edit) -> Iterator[str]:
    match edit:
        case Write(path, text, create_only):
            yield from _head(None if create_only else path, path)
            if not create_only:
                yield "@@ the whole file @@"
            yield from _marked("+", text)
        case Replace(path, old, new, replace_all):
            yield from _head(path, path)
            yield "@@ wherever it stands @@" if replace_all else "@@"
            yield from _replaced(old, new)
        case Insert(path, after_line, text):
            yield from _head(path, path)
            yield f"@@ after line {after_line} @@"
            yield from _marked("+", text)
        case ReplaceLines(path, start, end, text):
            yield from _head(path, path)
            yield f"@@ in place of lines {start} to {'the end' if end is None else end} @@"
            yield from _marked("+", text)
        case Hunks(path, hunks, move_to):
            yield from _head(path, move_to or path)
            for hunk in hunks:
                yield _hunk_head(hunk)
                yield from hunk.lines
        case Delete(path):
            yield from _head(path, None)
        case Move(path, to):
            yield from _head(path, to)
        case Undo(path):
            yield from _head(path, path)
            yield "@@ its last edit is taken back @@"


def _head(old: str | None, new: str | None) -> Iterator[str]:
    yield f"--- {old or '/dev/null'}"
    yield f"+++ {new or '/dev/null'}"


def _hunk_head(hunk: Hunk) -> str:
    if hunk.start is not None:
        return f"@@ line {hunk.start} @@"
    return f"@@ {hunk.anchor}" if hunk.anchor else "@@"


def _marked(mark: str, text: str) -> Iterator[str]:
    return (f"{mark}{line}" for line in text.removesuffix("\n").split("\n")) if text else iter(())


def _replaced(old: str, new: str) -> Iterator[str]:
    before, after = old.removesuffix("\n").split("\n"), new.removesuffix("\n").split("\n") if new else []
    if len(before) + len(after) > COMPARED_LINES:
        yield from (f"-{line}" for line in before)
        yield from (f"+{line}" for line in after)
        return
    for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (f" {line}" for line in before[a:b])
            continue
        yield from (f"-{line}" for line in before[a:b])
        yield from (f"+{line}" for line in after[c:d])
