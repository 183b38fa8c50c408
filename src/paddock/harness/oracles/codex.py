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
"""Lines before and after a change that are looked at."""
_TEST_YIELD_MS = 30_000
_TEST_TIMEOUT_MS = 600_000


def turns_of(fix: Fix, tools: Mapping[str, str]) -> list[list[JsonObject]]:
    """`tools`: type by name, of those that there are."""
    policy = _Policy(tools)
    made = changes(fix)
    for change in made:
        policy.run(_look(change))
    for change in _in_order(made):
        _make(policy, change, fix.files.get(change.path))
    policy.test(fix.test_command)
    paths = ", ".join(f"`{change.to or change.path}`" for change in made)
    policy.player.say(f"The fix is in place ({paths}), and I ran the tests after it.")
    return policy.player.turns


class _Policy:
    """Calls the tools that there are."""

    def __init__(self, tools: Mapping[str, str]) -> None:
        self.player = TurnWriter()
        self._types = tools

    def run(self, line: str) -> None:
        self._call(line, {}, {})

    def test(self, line: str) -> None:
        self._call(line, {"yield_time_ms": _TEST_YIELD_MS}, {"timeout_ms": _TEST_TIMEOUT_MS})

    def patch(self, body: str) -> None:
        patch = _enveloped(body)
        if self._types["apply_patch"] == "custom":
            self.player.custom("apply_patch", patch)
        else:
            self.player.call("apply_patch", input=patch)

    def _call(self, line: str, now: dict[str, int], older: dict[str, int]) -> None:
        if "exec_command" in self._types:
            self.player.call("exec_command", cmd=line, **now)
        elif "shell_command" in self._types:
            self.player.call("shell_command", command=line, **older)
        else:
            self.player.call("shell", command=["bash", "-lc", line], **older)


def _look(change: FileFix) -> str:
    path = shlex.quote(change.path)
    if change.kind == "add":
        return "ls -a"
    if not change.replacements:
        return f"cat -- {path}"
    first = max(1, min(one.line for one in change.replacements) - _AROUND)
    last = max(one.line + one.old.count("\n") for one in change.replacements) + _AROUND
    return f"sed -n '{first},{last}p' -- {path}"


def _in_order(made: Sequence[FileFix]) -> Iterator[FileFix]:
    yield from (change for change in made if change.kind == "delete")
    moves = [change for change in made if change.to is not None]
    while moves:
        left = {change.path for change in moves}
        free = next((change for change in moves if change.to not in left - {change.path}), moves[0])
        moves.remove(free)
        yield free
    yield from (change for change in made if change.kind != "delete" and change.to is None)


def _make(policy: _Policy, change: FileFix, before: str | None) -> None:
    path = change.to or change.path
    match change.kind:
        case "delete":
            _delete(policy, change.path)
        case "add":
            _add(policy, change.path, change.text or "")
        case "modify":
            _modify(policy, change, before)
    if change.executable is not None:
        policy.run(f"chmod {'+' if change.executable else '-'}x -- {shlex.quote(path)}")


def _delete(policy: _Policy, path: str) -> None:
    body = f"*** Delete File: {path}\n"
    if _gives(body, {path: ""}, {}):
        policy.patch(body)
    else:
        policy.run(f"rm -- {shlex.quote(path)}")


def _add(policy: _Policy, path: str, text: str) -> None:
    body = f"*** Add File: {path}\n" + _signed("+", text)
    _patched_to(policy, [body] if text else [], {}, path, text)


def _modify(policy: _Policy, change: FileFix, before: str | None) -> None:
    path, to = change.path, change.to or change.path
    if not change.replacements:
        if change.to is not None:
            folder = shlex.quote(change.to.rpartition("/")[0] or ".")
            policy.run(f"mkdir -p -- {folder} && mv -- {shlex.quote(path)} {shlex.quote(to)}")
        return
    head = f"*** Update File: {path}\n" + (f"*** Move to: {to}\n" if change.to else "")
    hunks = [_hunk(one) for one in change.replacements]
    if before is None or change.text is None:
        policy.patch(head + "".join(hunks))
        if not change.replacements[-1].new.endswith("\n") and change.replacements[-1].new:
            policy.run(_without_newline(to))
    else:
        together = [head + "".join(hunks)]
        one_by_one = [head + hunks[0], *(f"*** Update File: {to}\n{hunk}" for hunk in hunks[1:])]
        chosen = together if _result(together, {path: before}) in _nearly(to, change.text) else one_by_one
        _patched_to(policy, chosen, {path: before}, to, change.text)
    if change.to is not None and change.executable is None:
        was = f"git ls-files -s -- {shlex.quote(path)} | grep -q ^100755"
        policy.run(f"if {was}; then chmod +x -- {shlex.quote(to)}; fi")


def _patched_to(policy: _Policy, bodies: list[str], files: dict[str, str], path: str, text: str) -> None:
    """Patches where they leave the text, or a newline more; else the text as it is."""
    result = _result(bodies, files)
    if bodies and result in _nearly(path, text):
        for body in bodies:
            policy.patch(body)
        if result != {path: text}:
            policy.run(_without_newline(path))
        return
    for old in files:
        if old != path:
            policy.run(f"rm -- {shlex.quote(old)}")
    policy.run(_written(path, text))


def _nearly(path: str, text: str) -> tuple[dict[str, str], dict[str, str]]:
    return {path: text}, {path: text + "\n"}


def _gives(body: str, files: dict[str, str], after: dict[str, str]) -> bool:
    return _result([body], files) == after


def _result(bodies: Sequence[str], files: dict[str, str]) -> dict[str, str] | None:
    """The files after patches; None: they can't be made."""
    try:
        for body in bodies:
            files = apply(parse_codex_patch(_enveloped(body)), files)
    except (PatchError, EditError):
        return None
    return files


def _enveloped(body: str) -> str:
    return f"*** Begin Patch\n{body}*** End Patch\n"


def _hunk(one: Replacement) -> str:
    """Lines that both texts begin or end with are context."""
    old, new = _lines(one.old), _lines(one.new)
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


def _written(path: str, text: str) -> str:
    """A shell line that writes a file; here-documents end in a newline, so the last one may be taken back."""
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
