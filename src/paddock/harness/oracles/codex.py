"""A known fix as Codex would make it: look at each file, patch, run the tests, say so.

Law     pure. Each patch has been tried on the texts that are known: where apply_patch would not leave exactly the text
        after (it ends files with a newline, and makes no carriage returns), a shell command does what it can't.
Order   deletions and moves first, so that a path that they leave may be used anew.
Errors  those of `paddock.harness.native.changes`.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from paddock.edits import EditError, PatchError, apply, parse_codex_patch
from paddock.harness.native import FileFix, Replacement, TurnWriter, changes
from paddock.types import Fix, JsonObject

_AROUND = 20
"""Lines before and after a change that the policy looks at."""
_TEST_YIELD_MS = 30_000
_TEST_TIMEOUT_MS = 600_000


def turns_of(fix: Fix, tools: Mapping[str, str]) -> list[list[JsonObject]]:
    """Return the turns that make a fix. `tools`: type of each tool by its name. Raises what `changes` raises."""
    turns = _CodexTurns(tools)
    file_fixes = changes(fix)
    for change in file_fixes:
        turns.run(_look(change))
    for change in _in_order(file_fixes):
        _write_change(turns, change, fix.files.get(change.path))
    turns.test(fix.test_command)
    paths = ", ".join(f"`{change.to or change.path}`" for change in file_fixes)
    turns.writer.say(f"The fix is in place ({paths}), and I ran the tests after it.")
    return turns.writer.turns


class _CodexTurns:
    """Writes turns with the tools that the profile has."""

    def __init__(self, tools: Mapping[str, str]) -> None:
        self.writer = TurnWriter()
        self._types = tools

    def run(self, line: str) -> None:
        self._call(line, {}, {})

    def test(self, line: str) -> None:
        self._call(line, {"yield_time_ms": _TEST_YIELD_MS}, {"timeout_ms": _TEST_TIMEOUT_MS})

    def patch(self, body: str) -> None:
        patch = _envelope(body)
        if self._types["apply_patch"] == "custom":
            self.writer.custom("apply_patch", patch)
        else:
            self.writer.call("apply_patch", input=patch)

    def _call(self, line: str, now: dict[str, int], older: dict[str, int]) -> None:
        if "exec_command" in self._types:
            self.writer.call("exec_command", cmd=line, **now)
        elif "shell_command" in self._types:
            self.writer.call("shell_command", command=line, **older)
        else:
            self.writer.call("shell", command=["bash", "-lc", line], **older)


def _look(change: FileFix) -> str:
    path = shlex.quote(change.path)
    if change.kind == "add":
        return "ls -a"
    if not change.replacements:
        return f"cat -- {path}"
    first = max(1, min(edit.line for edit in change.replacements) - _AROUND)
    last = max(edit.line + edit.old.count("\n") for edit in change.replacements) + _AROUND
    return f"sed -n '{first},{last}p' -- {path}"


def _in_order(file_fixes: Sequence[FileFix]) -> Iterator[FileFix]:
    yield from (change for change in file_fixes if change.kind == "delete")
    moves = [change for change in file_fixes if change.to is not None]
    while moves:
        left = {change.path for change in moves}
        free = next((change for change in moves if change.to not in left - {change.path}), moves[0])
        moves.remove(free)
        yield free
    yield from (change for change in file_fixes if change.kind != "delete" and change.to is None)


def _write_change(turns: _CodexTurns, change: FileFix, before: str | None) -> None:
    path = change.to or change.path
    match change.kind:
        case "delete":
            _delete(turns, change.path)
        case "add":
            _add(turns, change.path, change.text or "")
        case "modify":
            _modify(turns, change, before)
    if change.executable is not None:
        turns.run(f"chmod {'+' if change.executable else '-'}x -- {shlex.quote(path)}")


def _delete(turns: _CodexTurns, path: str) -> None:
    body = f"*** Delete File: {path}\n"
    if _results_in(body, {path: ""}, {}):
        turns.patch(body)
    else:
        turns.run(f"rm -- {shlex.quote(path)}")


def _add(turns: _CodexTurns, path: str, text: str) -> None:
    body = f"*** Add File: {path}\n" + _signed("+", text)
    _write_file(turns, [body] if text else [], {}, path, text)


def _modify(turns: _CodexTurns, change: FileFix, before: str | None) -> None:
    path, to = change.path, change.to or change.path
    if not change.replacements:
        if change.to is not None:
            folder = shlex.quote(change.to.rpartition("/")[0] or ".")
            turns.run(f"mkdir -p -- {folder} && mv -- {shlex.quote(path)} {shlex.quote(to)}")
        return
    head = f"*** Update File: {path}\n" + (f"*** Move to: {to}\n" if change.to else "")
    hunks = [_hunk(edit) for edit in change.replacements]
    if before is None or change.text is None:
        turns.patch(head + "".join(hunks))
        if not change.replacements[-1].new.endswith("\n") and change.replacements[-1].new:
            turns.run(_without_newline(to))
    else:
        together = [head + "".join(hunks)]
        separately = [head + hunks[0], *(f"*** Update File: {to}\n{hunk}" for hunk in hunks[1:])]
        chosen = (
            together if _result(together, {path: before}) in _with_or_without_newline(to, change.text) else separately
        )
        _write_file(turns, chosen, {path: before}, to, change.text)
    if change.to is not None and change.executable is None:
        was = f"git ls-files -s -- {shlex.quote(path)} | grep -q ^100755"
        turns.run(f"if {was}; then chmod +x -- {shlex.quote(to)}; fi")


def _write_file(turns: _CodexTurns, bodies: list[str], files: dict[str, str], path: str, text: str) -> None:
    """Write a file by patches where they leave the text, or a newline more; else by a shell line."""
    result = _result(bodies, files)
    if bodies and result in _with_or_without_newline(path, text):
        for body in bodies:
            turns.patch(body)
        if result != {path: text}:
            turns.run(_without_newline(path))
        return
    for old in files:
        if old != path:
            turns.run(f"rm -- {shlex.quote(old)}")
    turns.run(_write_line(path, text))


def _with_or_without_newline(path: str, text: str) -> tuple[dict[str, str], dict[str, str]]:
    return {path: text}, {path: text + "\n"}


def _results_in(body: str, files: dict[str, str], after: dict[str, str]) -> bool:
    return _result([body], files) == after


def _result(bodies: Sequence[str], files: dict[str, str]) -> dict[str, str] | None:
    """Return the files after patches; None: the patches can't be made."""
    try:
        for body in bodies:
            files = apply(parse_codex_patch(_envelope(body)), files)
    except (PatchError, EditError):
        return None
    return files


def _envelope(body: str) -> str:
    return f"*** Begin Patch\n{body}*** End Patch\n"


def _hunk(edit: Replacement) -> str:
    """Format a hunk; lines that both texts begin or end with are context."""
    old, new = _lines(edit.old), _lines(edit.new)
    shared = 0
    while shared < min(len(old), len(new)) and old[shared] == new[shared]:
        shared += 1
    tail = 0
    while tail < min(len(old), len(new)) - shared and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    parts = [(" ", old[:shared]), ("-", old[shared : len(old) - tail]), ("+", new[shared : len(new) - tail])]
    lines = [sign + line for sign, some in (*parts, (" ", old[len(old) - tail :])) for line in some]
    return "@@\n" + "".join(f"{line}\n" for line in lines)


def _signed(sign: str, text: str) -> str:
    return "".join(f"{sign}{line}\n" for line in _lines(text))


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else lines


def _without_newline(path: str) -> str:
    name = shlex.quote(path)
    return f'text=$(cat -- {name}) && printf %s "$text" > {name}'


def _write_line(path: str, text: str) -> str:
    """Return a shell line that writes a file; the newline that a here-document adds is removed where there is none."""
    folder, _, _ = path.rpartition("/")
    start = f"mkdir -p -- {shlex.quote(folder)} && " if folder else ""
    if not text:
        return f"{start}: > {shlex.quote(path)}"
    end = "EOF"
    while end in text.split("\n"):
        end += "_"
    whole = text if text.endswith("\n") else text + "\n"
    line = f"{start}cat > {shlex.quote(path)} <<'{end}'\n{whole}{end}\n"
    return line if text.endswith("\n") else line + _without_newline(path)
