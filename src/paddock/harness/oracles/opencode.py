"""A known fix as OpenCode would make it: look, read, edit, run the tests, finish.

Law     pure. Each call is tried on the texts before it is written down: `edit` or a patch where it surely makes the
        very text that the fix makes, else the whole file. What no tool for text does (delete, move, modes) is a line
        for `bash`. A file is read before it is changed.
Tools   without `edit`, files are changed by `apply_patch`, and what that can't make (no newline at the end, an empty
        file) by a line for `bash`.
Errors  those of `paddock.harness.native.changes`.
"""

from collections.abc import Sequence
from posixpath import dirname, join
from shlex import quote

from paddock.edits import EditError, PatchError, apply, parse_codex_patch
from paddock.harness.native import FileFix, Replacement, TurnWriter, changes
from paddock.types import Fix, JsonObject

BOM = "\ufeff"
TEST_TIMEOUT_MS = 600_000
_ORDER = {"delete": 0, "modify": 1, "add": 2}
"""What is deleted and what moves away makes room for what is added."""


def turns_of(fix: Fix, tools: Sequence[str]) -> list[list[JsonObject]]:
    """Return the turns that make a fix. `tools`: names of the tools. Raises what `changes` raises."""
    return fix_turns(EditTurns(fix) if "edit" in tools else _PatchTurns(fix), fix)


def fix_turns(writer: "EditTurns", fix: Fix) -> list[list[JsonObject]]:
    """Return the turns in which `writer` makes the fix."""
    file_fixes = changes(fix)
    writer.look()
    for change in sorted(file_fixes, key=lambda change: _ORDER[change.kind]):
        writer.make(change)
    writer.line(fix.test_command, timeout=TEST_TIMEOUT_MS)
    writer.say("The change is made, and the tests have been run.")
    return writer.turns


class EditTurns(TurnWriter):
    """Writes turns with `edit` and `write`."""

    def __init__(self, fix: Fix) -> None:
        super().__init__()
        self._fix = fix

    def look(self) -> None:
        self.read(self._fix.workdir)

    def make(self, change: FileFix) -> None:
        path = join(self._fix.workdir, change.to or change.path)
        if change.kind == "delete":
            self.line(f"rm -f -- {quote(path)}")
        elif change.kind == "add":
            self.put(path, change.text or "")
        else:
            self._modify(change, path)
        if change.executable is not None:
            self.line(f"chmod {'+x' if change.executable else '-x'} -- {quote(path)}")

    def _modify(self, change: FileFix, path: str) -> None:
        if change.to is not None:
            old = join(self._fix.workdir, change.path)
            self.line(f"mkdir -p -- {quote(dirname(path))} && mv -- {quote(old)} {quote(path)}")
        if not change.replacements:
            return
        self.read(path)
        before = self._fix.files.get(change.path)
        if self.edits_suffice(path, before, change):
            self.edit(path, change.replacements)
            return
        if before is not None and before.startswith(BOM):
            # `write` keeps the mark of a file that has one.
            self.line(f": > {quote(path)}")
        self.put(path, change.text or "")

    def edits_suffice(self, path: str, before: str | None, change: FileFix) -> bool:
        """Whether edits give the text after; where the text before is unknown there is no other way."""
        if before is None:
            return True
        text: str | None = before
        for edit in change.replacements:
            text = self.replaced(text, edit) if text is not None else None
        return text == change.text

    def replaced(self, text: str, edit: Replacement) -> str | None:
        """Return the text after an edit; None: `edit` may give another text, as it treats similar places, line ends and
        byte order marks in its own way."""
        at = text.find(edit.old)
        if not edit.old or at < 0 or text.rfind(edit.old) != at or any(odd in text + edit.new for odd in ("\r", BOM)):
            return None
        return text[:at] + edit.new + text[at + len(edit.old) :]

    def read(self, path: str) -> None:
        self.call("read", filePath=path)

    def edit(self, path: str, replacements: Sequence[Replacement]) -> None:
        for replacement in replacements:
            self.call("edit", filePath=path, oldString=replacement.old, newString=replacement.new)

    def put(self, path: str, text: str) -> None:
        self.call("write", filePath=path, content=text)

    def line(self, command: str, **more: object) -> None:
        self.call("bash", command=command, **more)


class _PatchTurns(EditTurns):
    """Writes turns with `apply_patch`."""

    def edits_suffice(self, path: str, before: str | None, change: FileFix) -> bool:
        if before is None:
            return True
        return BOM not in before and _applied(_update(path, change.replacements), path, before) == change.text

    def edit(self, path: str, replacements: Sequence[Replacement]) -> None:
        self.call("apply_patch", patchText=_update(path, replacements))

    def put(self, path: str, text: str) -> None:
        lines = "".join(f"+{line}\n" for line in text.split("\n")[:-1])
        patch = f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch"
        if text and _applied(patch, path, None) == text:
            self.call("apply_patch", patchText=patch)
        else:
            self.line(f"mkdir -p -- {quote(dirname(path))} && printf %s {quote(text)} > {quote(path)}")


def _update(path: str, replacements: Sequence[Replacement]) -> str:
    hunks = [
        "@@\n" + "".join(f"{sign}{line}\n" for sign, text in (("-", fix.old), ("+", fix.new)) for line in _lines(text))
        for fix in replacements
    ]
    return "\n".join(["*** Begin Patch", f"*** Update File: {path}", "".join(hunks) + "*** End Patch"])


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _applied(patch: str, path: str, before: str | None) -> str | None:
    """Return a file's text after a patch; None: the patch can't be made."""
    try:
        return apply(parse_codex_patch(patch), {} if before is None else {path: before}).get(path)
    except (PatchError, EditError):
        return None
