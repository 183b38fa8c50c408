"""A known fix as Claude Code would make it: look, read, edit, run the tests, finish.

Law     that of `paddock.harness.oracles.opencode`, with `Bash`, `Read`, `Edit` and `Write`: a file is read before it is
        changed, of which some lines are enough; `Read` shows no folders.
Careful  what `Edit` or `Read` might do otherwise (blanks at ends of lines, long files) is avoided, not known.
Errors  those of `paddock.harness.native.changes`.
"""

from collections.abc import Sequence
from posixpath import dirname
from shlex import quote

from paddock.harness.native import Replacement
from paddock.harness.oracles.opencode import BOM, EditTurns, fix_turns
from paddock.types import Fix, JsonObject

_READ_LINES = 200
"""So that no file is too long for it."""


def turns_of(fix: Fix) -> list[list[JsonObject]]:
    return fix_turns(_ClaudeTurns(fix), fix)


class _ClaudeTurns(EditTurns):
    def look(self) -> None:
        self.line(f"ls -la -- {quote(self._fix.workdir)}")

    def replaced(self, text: str, edit: Replacement) -> str | None:
        """In case that `Edit` takes blanks at the ends of lines away, and a line's end with the line."""
        blank_ends = any(line != line.rstrip() for line in edit.new.split("\n"))
        broken_line = not edit.new and not edit.old.endswith("\n")
        return None if blank_ends or broken_line else super().replaced(text, edit)

    def read(self, path: str) -> None:
        self.call("Read", file_path=path, limit=_READ_LINES)

    def edit(self, path: str, replacements: Sequence[Replacement]) -> None:
        for replacement in replacements:
            self.call("Edit", file_path=path, old_string=replacement.old, new_string=replacement.new)

    def put(self, path: str, text: str) -> None:
        if text and not any(odd in text for odd in ("\r", BOM)):
            self.call("Write", file_path=path, content=text)
        else:
            self.line(f"mkdir -p -- {quote(dirname(path))} && printf %s {quote(text)} > {quote(path)}")

    def line(self, command: str, **more: object) -> None:
        self.call("Bash", command=command, **more)
