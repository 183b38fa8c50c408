"""A known fix with the tools of OpenHands: look, edit, run the tests, finish. Pure.

Order   what goes away goes first, then what moves (in an order in which no target is still in use), then edits, then
        what is new. So a path may be freed and used again.
Editor  it can't keep a carriage return or a byte order mark of a file that it edits. A file with one is written anew
        beside the old and copied over it, where the text after is known; else its lines get their CR back at the end.
Moves   by `mv`, which keeps a file's mode.
"""

from collections.abc import Iterator
from posixpath import dirname, join
from shlex import quote

from paddock.harness.native import FileFix, Replacement, TurnWriter, changes
from paddock.types import Fix, JsonObject

TEST_TIMEOUT_S = 600
_LOST = ("\r", "\ufeff")
_SPARE = ".codeact-new"
"""Ends the name of a file that is copied over another."""


def turns_of(fix: Fix, *, terminal: str, editor: str) -> list[list[JsonObject]]:
    """Return the turns that make a fix. `terminal`, `editor`: the names of its tools. Raises what `changes` raises."""
    turns = _FixTurns(fix, terminal, editor)
    todo = changes(fix)
    turns.view("")
    for change in todo:
        if change.kind != "add":
            turns.view(change.path)
    for change in todo:
        if change.kind == "delete":
            turns.shell(f"rm {turns.quoted(change.path)}")
    for change in _moves(todo):
        turns.move(change.path, change.to or change.path)
    for change in todo:
        if change.kind == "modify":
            turns.edit(change)
    for change in todo:
        if change.kind == "add":
            turns.create(change.path, change.text or "")
    for change in todo:
        if change.executable is not None:
            turns.shell(f"chmod {'+x' if change.executable else '-x'} {turns.quoted(change.to or change.path)}")
    turns.finish(fix.test_command)
    return turns.writer.turns


class _FixTurns:
    """Writes turns with the terminal and the editor."""

    def __init__(self, fix: Fix, terminal: str, editor: str) -> None:
        self.writer = TurnWriter()
        self._workdir = fix.workdir
        self._before = fix.files
        self._shell, self._editor = terminal, editor

    def at(self, path: str) -> str:
        return join(self._workdir, path) if path else self._workdir

    def quoted(self, path: str) -> str:
        return quote(self.at(path))

    def shell(self, line: str, **more: object) -> None:
        self.writer.call(self._shell, command=line, **more, security_risk="LOW")

    def edit_call(self, command: str, path: str, **more: object) -> None:
        self.writer.call(self._editor, command=command, path=self.at(path), **more, security_risk="LOW")

    def view(self, path: str) -> None:
        self.edit_call("view", path)

    def move(self, path: str, to: str) -> None:
        self.shell(f"mkdir -p {self.quoted(dirname(to))} && mv {self.quoted(path)} {self.quoted(to)}")

    def create(self, path: str, text: str) -> None:
        if dirname(path):
            self.shell(f"mkdir -p {self.quoted(dirname(path))}")
        self.edit_call("create", path, file_text=text)

    def edit(self, change: FileFix) -> None:
        """Edit a file that is at its final path."""
        path = change.to or change.path
        texts = [self._before.get(change.path, ""), *(part for edit in change.replacements for part in edit[1:])]
        if not change.replacements or not any(mark in text for text in texts for mark in _LOST):
            self._replace(path, change.replacements)
        elif change.text is not None:
            self.edit_call("create", path + _SPARE, file_text=change.text)
            spare, target = self.quoted(path + _SPARE), self.quoted(path)
            self.shell(f"cat {spare} > {target} && rm {spare}")
        else:
            plain = [edit._replace(old=_plain(edit.old), new=_plain(edit.new)) for edit in change.replacements]
            self._replace(path, [edit for edit in plain if edit.old != edit.new])
            if any("\r\n" in edit.new for edit in change.replacements):
                self.shell(f"sed -i 's/$/\\r/' {self.quoted(path)}")

    def _replace(self, path: str, replacements: list[Replacement]) -> None:
        for edit in replacements:
            if not edit.old and edit.line > 1:
                # A hunk without old lines in a file of unknown text: its line is the one before.
                self.edit_call("insert", path, insert_line=edit.line, new_str=edit.new.removesuffix("\n"))
            else:
                self.edit_call("str_replace", path, old_str=edit.old, new_str=edit.new)

    def finish(self, test_command: str) -> None:
        line = f"bash -c {quote(test_command)}" if "\n" in test_command.strip() else test_command
        self.shell(line, timeout=TEST_TIMEOUT_S)
        self.writer.call("finish", message="The change is made, and I have run the tests.")


def _plain(text: str) -> str:
    """Return a text as the editor reads it."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _moves(todo: list[FileFix]) -> Iterator[FileFix]:
    """Yield files that move, each after those at its target. Raises ValueError where they move in a ring."""
    left = [change for change in todo if change.kind == "modify" and change.to not in (None, change.path)]
    while left:
        taken = {change.path for change in left}
        free = [change for change in left if change.to not in taken]
        if not free:
            raise ValueError(f"files that move in a ring: {', '.join(sorted(taken))}")
        yield from free
        left = [change for change in left if change not in free]
