"""Changes of a text that are functions of it: substitutions line by line, replacements of strings, text at its end.

Law     what a function makes of a text is what the program that it is read from makes of it. A file of which only a
        part is known is changed only where that part decides it: by numbers of lines, or where what is replaced is long
        enough to stand once in a file (`is_distinct`) and stands once there.
None    a text on which the outcome is not known: a part of a file, or one that takes too long.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from paddock.edits import KnownText, Replace
from paddock.resources_servers.pivot.semantic.intents.regular_expressions import Expression
from paddock.shell import take

DISTINCT_LITERAL_CHARS = 20
"""Characters, without blanks, of a text that is taken to stand once in a file that is not known."""
_MAX_STEPS = 10**7
_PER_STEP = 2000
"""Steps of a pattern in one of a judgement's budget."""


@dataclass(frozen=True, slots=True)
class Append:
    """Text after the last line."""

    text: str

    def apply(self, view: KnownText) -> KnownText | None:
        return replace(view, text=view.text + self.text) if view.complete else None

    def replacement(self, path: str) -> Replace | None:
        del path
        return None


@dataclass(frozen=True, slots=True)
class InsertBefore:
    """Text before a line that is there: sed's `i`."""

    line: int
    text: str

    def apply(self, view: KnownText) -> KnownText | None:
        lines = view.text.split("\n")
        index = self.line - view.first_line
        if not 0 <= index < len(lines) - (not lines[-1]):
            return None
        return replace(view, text="\n".join([*lines[:index], self.text, *lines[index:]]))

    def replacement(self, path: str) -> Replace | None:
        del path
        return None


@dataclass(frozen=True, slots=True)
class ReplaceText:
    """One string for another, wherever it stands: Python's `str.replace`."""

    old: str
    new: str
    count: int = -1
    """Only so many of them, from the beginning; -1: all."""
    once: bool = False
    """True: the program fails where the old text stands more than once."""

    def apply(self, view: KnownText) -> KnownText | None:
        found = view.text.count(self.old)
        # Python reads "\r\n" as "\n", and would write that.
        if not view.complete and (found != 1 or not is_distinct(self.old)):
            return None
        if not found or (self.once and found > 1) or "\r" in view.text:
            return None
        return replace(view, text=view.text.replace(self.old, self.new, self.count))

    def replacement(self, path: str) -> Replace | None:
        return Replace(path, self.old, self.new) if self.old != self.new else None


@dataclass(frozen=True, slots=True)
class LineAddress:
    """Which lines a command of sed is for: one, or those from one to another."""

    first: int | Expression | None
    """None: the last line."""
    last: int | Expression | None = 0
    """0: there is no range."""
    more: int = 0
    """Above 0: the range is so many lines longer than its first."""


@dataclass(frozen=True, slots=True)
class Substitution:
    """sed's `s`, perl's `s` on each line."""

    expression: Expression
    template: tuple[str | int, ...]
    """Texts, and the numbers of groups; 0: all that matched."""
    every: bool = False
    occurrence: int = 1
    """Which one in a line, and with `every` those behind it."""
    ignore_case: bool = False
    address: LineAddress | None = None
    """None: all lines."""

    def on_line(self, line: str) -> str:
        return "".join(self._parts(line))

    def _parts(self, line: str) -> Iterator[str]:
        pattern = re.compile(self.expression.pattern, re.DOTALL | (re.IGNORECASE if self.ignore_case else 0))
        at, count, start, ended = 0, 0, 0, 0
        while start <= len(line) and (match := pattern.search(line, start)) is not None:
            # As in POSIX, no empty match directly behind another match.
            if match.end() == match.start() == ended and count:
                start = match.end() + 1
                continue
            count += 1
            ended = match.end()
            if count >= self.occurrence:
                yield line[at : match.start()]
                yield "".join(part if isinstance(part, str) else match[part] or "" for part in self.template)
                at = match.end()
                if not self.every:
                    break
            start = match.end() + (match.end() == match.start())
        yield line[at:]


@dataclass(frozen=True, slots=True)
class Removal:
    """sed's `d`."""

    address: LineAddress


@dataclass(frozen=True, slots=True)
class Insertion:
    """sed's `a`, `i` and `c` at each of some lines."""

    name: Literal["a", "i", "c"]
    address: LineAddress
    """Has no range."""
    text: str

    def on_line(self, line: str) -> str:
        return {"a": f"{line}\n{self.text}", "i": f"{self.text}\n{line}", "c": self.text}[self.name]


LineCommand = Substitution | Removal | Insertion


@dataclass(frozen=True, slots=True)
class LineScript:
    """Substitutions and removals made on each line in turn, as sed does; an insertion is the only command."""

    commands: tuple[LineCommand, ...]

    def apply(self, view: KnownText) -> KnownText | None:
        within = view.complete or all(_is_within(command.address, view) for command in self.commands)
        if not within and not self._stands_once(view):
            return None
        lines = view.text.split("\n")
        ends_in_newline = not lines[-1]
        if ends_in_newline:
            lines.pop()
        steps = self._steps(lines)
        if steps > _MAX_STEPS:
            return None
        take(steps // _PER_STEP + len(lines) * len(self.commands) // 2)
        out: list[str] = []
        ranges = [_Range(command.address) for command in self.commands]
        for number, line in enumerate(lines, view.first_line):
            is_last = view.complete and number == len(lines)
            kept: str | None = line
            for command, span in zip(self.commands, ranges, strict=True):
                if kept is None or not span.holds(number, kept, is_last=is_last):
                    continue
                kept = None if isinstance(command, Removal) else command.on_line(kept)
            if kept is not None:
                out.append(kept)
        return replace(view, text="\n".join(out) + ("\n" if ends_in_newline and out else ""))

    def _stands_once(self, view: KnownText) -> bool:
        """Say whether what it replaces is taken to stand in the whole file only where the known part has it."""
        made = self.replacement("")
        return made is not None and is_distinct(made.old) and view.text.count(made.old) == 1

    def _steps(self, lines: list[str]) -> int:
        repeats = max((e.repeats for command in self.commands for e in _expressions(command)), default=0)
        return len(self.commands) * sum(int((len(line) + 1) ** (repeats + 1)) for line in lines)

    def replacement(self, path: str) -> Replace | None:
        """Return the replacement of the one place where it is made, where what it looks for stands once in a file."""
        if len(self.commands) != 1 or not isinstance(command := self.commands[0], Substitution):
            return None
        old = command.expression.literal
        new = "".join(old or "" if part == 0 else str(part) for part in command.template)
        plain = command.address is None and command.occurrence == 1 and not command.ignore_case
        if old is None or not plain or old == new:
            return None
        return Replace(path, old, new)


TextFunction = Append | InsertBefore | ReplaceText | LineScript


def is_distinct(text: str) -> bool:
    """Say whether a text is long enough to be taken to stand once in a file."""
    return len("".join(text.split())) >= DISTINCT_LITERAL_CHARS


def _expressions(command: LineCommand) -> Iterator[Expression]:
    if isinstance(command, Substitution):
        yield command.expression
    if command.address is not None:
        yield from (e for e in (command.address.first, command.address.last) if isinstance(e, Expression))


def _is_within(address: LineAddress | None, view: KnownText) -> bool:
    """Say whether all lines of an address are in the known part."""
    if address is None or not isinstance(address.first, int) or not isinstance(address.last, int):
        return False
    last = max(address.first, address.last) + address.more
    return view.first_line <= address.first and last < view.first_line + view.text.count("\n")


class _Range:
    """An address while lines go by."""

    def __init__(self, address: LineAddress | None) -> None:
        self.address = address
        self.until: int | None = None
        """The last line of a range that is open, 0: the range ends by what its lines hold. None: none is open."""

    def holds(self, number: int, line: str, *, is_last: bool) -> bool:
        address = self.address
        if address is None:
            return True
        if self.until is not None:
            self._close(address, number, line)
            return True
        if not _matches(address.first, number, line, is_last=is_last):
            return False
        if address.more:
            self.until = number + address.more
        elif isinstance(address.last, int):
            self.until = address.last if address.last > number else None
        else:
            self.until = 0
        return True

    def _close(self, address: LineAddress, number: int, line: str) -> None:
        by_line = isinstance(address.last, Expression) and _matches(address.last, number, line, is_last=False)
        if by_line or (self.until and number >= self.until):
            self.until = None


def _matches(first: int | Expression | None, number: int, line: str, *, is_last: bool) -> bool:
    if isinstance(first, Expression):
        return re.search(first.pattern, line, re.DOTALL) is not None
    return is_last if first is None else number == first
