"""Scripts of `sed -i` and of `perl -pi -e`, read as changes of one file's text.

Source  the GNU sed manual: `s`, `d`, `a`, `i`, `c`, addresses by number, `$` and regular expression; perlrun's `-p -i`.
Law     lines that are put before, behind or in place of lines of one number are an `Insert` or `ReplaceLines`; all
        else is a `LineScript`. `a` behind a last line without a newline joins it here, as an editor's insert does, and
        begins a line in sed: text files end in a newline. A backup that `-i.bak`, `-i.orig` or `-i~` leaves beside the
        file is not looked at.
None    blocks, jumps, the hold space, flags that print, write or run, `-n`, `-s`, `-z`,
        a text with another backslash than that of a newline or a tab.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from paddock.edits import Insert, ReplaceLines
from paddock.resources_servers.pivot.semantic.intents.regular_expressions import Dialect, Expression, expression
from paddock.resources_servers.pivot.semantic.intents.text_functions import (
    Insertion,
    LineAddress,
    LineCommand,
    LineScript,
    Removal,
    Substitution,
)
from paddock.shell import take

BACKUPS = ("", ".bak", ".orig", "~")
"""Suffixes of backups that are not looked at."""

_IN_PLACE = re.compile(r"-([Er]*)i(.*)|--in-place(?:=(.*))?")
_NUMBER = re.compile(r"\d{1,8}")
_TEXT = re.compile(r"([aic])[ \t]*+(?:\\\n|\\)?([^\\\n](?:[^\\\n]|\\[nt\n])*)(?:\n|\Z)")
_ESCAPED = {r"\n": "\n", r"\t": "\t", "\\\n": "\n"}
_CLEAR_DELIMITERS = '/,#@!:%_~=; "'
"""Delimiters of `s` that mean nothing in a regular expression, so that with a backslash they are themselves."""


class LineText(NamedTuple):
    """sed's `a`, `i` and `c`, at a line of a number."""

    name: Literal["a", "i", "c"]
    first: int
    last: int
    text: str

    def edit(self, path: str) -> Insert | ReplaceLines | None:
        """Return it as an edit; None: `i`, which needs the line that it stands before, while an insert does not."""
        if self.name == "c":
            return ReplaceLines(path, self.first, self.last, self.text)
        return Insert(path, self.first, self.text) if self.name == "a" else None


class FileScript(NamedTuple):
    """A script and the files that it is made on."""

    change: LineScript | LineText
    paths: tuple[str, ...]


def sed_in_place(words: Sequence[str]) -> FileScript | None:
    """Read a `sed` that changes files; `words` are those behind the program's name."""
    scripts: list[str] = []
    operands: list[str] = []
    dialect: Dialect = "basic"
    in_place = False
    rest = list(words)
    while rest:
        word = rest.pop(0)
        found = _IN_PLACE.fullmatch(word)
        if found is not None:
            in_place = True
            dialect = "extended" if found[1] else dialect
            if (found[2] or found[3] or "") not in BACKUPS:
                return None
        elif word in ("-E", "-r", "--regexp-extended"):
            dialect = "extended"
        elif word in ("-e", "--expression") and rest:
            scripts.append(rest.pop(0))
        elif word.startswith("--expression="):
            scripts.append(word.partition("=")[2])
        elif word == "--":
            operands.extend(rest)
            break
        elif word.startswith("-"):
            return None
        else:
            operands.append(word)
    if not scripts and operands:
        scripts.append(operands.pop(0))
    change = sed_script("\n".join(scripts), dialect) if in_place and operands else None
    return FileScript(change, tuple(operands)) if change is not None else None


def perl_in_place(words: Sequence[str]) -> FileScript | None:
    """Read a `perl -pi -e 's/…/…/' FILE`; `words` are those behind the program's name."""
    rest = list(words)
    letters = ""
    while rest and rest[0].startswith("-") and "e" not in letters:
        flag = re.fullmatch(r"-([pe]*)(?:(i)(\.bak|\.orig|~|e)?)?([pe]*)", rest.pop(0))
        if flag is None:
            return None
        letters += (flag[1] or "") + (flag[2] or "") + (flag[4] or "")
        if flag[3] == "e":
            return None
    if sorted(letters) != ["e", "i", "p"] or not letters.endswith("e") or len(rest) < 2 or rest[1].startswith("-"):
        return None
    script, *paths = rest
    try:
        take(len(script))
        reader = _ScriptReader(script.strip().rstrip(";"), "perl")
        command = reader.substitution(None)
        if reader.at != len(reader.text):
            return None
    except _UnreadScriptError:
        return None
    return FileScript(LineScript((command,)), tuple(paths))


def sed_script(text: str, dialect: Dialect) -> LineScript | LineText | None:
    """Read a script; None: a command in it is not known."""
    take(len(text))
    try:
        found = _ScriptReader(text, dialect).script()
    except _UnreadScriptError:
        return None
    if len(found) == 1 and isinstance(found[0], LineText):
        return found[0]
    commands = tuple(command for command in found if not isinstance(command, LineText))
    if not commands or len(commands) != len(found):
        return None
    if len(commands) > 1 and any(isinstance(command, Insertion) for command in commands):
        return None
    removed = False
    for command in commands:
        address = command.address
        if removed and address is not None and (address.last != 0 or address.more):
            return None
        removed = removed or isinstance(command, Removal)
    return LineScript(commands)


class _UnreadScriptError(Exception):
    """Something in the script is not read here."""


class _ScriptReader:
    """Reads a script from left to right."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text = text
        self.dialect: Dialect = dialect
        self.at = 0

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self, chars: str) -> None:
        while self.peek() and self.peek() in chars:
            self.at += 1

    def script(self) -> list[LineCommand | LineText]:
        commands: list[LineCommand | LineText] = []
        self.skip(" \t\n;")
        while self.peek():
            commands.append(self.command())
            self.skip(" \t")
            if self.peek() and self.text[self.at - 1] != "\n" and self.peek() not in ";\n":
                raise _UnreadScriptError
            self.skip(" \t\n;")
        return commands

    def command(self) -> LineCommand | LineText:
        address = self.address()
        self.skip(" \t")
        name = self.peek()
        if name == "s":
            return self.substitution(address)
        if name == "d" and address is not None:
            self.at += 1
            return Removal(address)
        if name and name in "aic" and address is not None:
            return self.line_text(address)
        raise _UnreadScriptError

    def line_text(self, address: LineAddress) -> LineText | Insertion:
        found = _TEXT.match(self.text, self.at)
        if found is None or not isinstance(address.last, int) or not found[2].strip():
            raise _UnreadScriptError
        self.at = found.end()
        text = re.sub(r"\\[nt\n]", lambda escape: _ESCAPED[escape[0]], found[2])
        name: Literal["a", "i", "c"] = "a" if found[1] == "a" else "i" if found[1] == "i" else "c"
        first = address.first
        if not isinstance(first, int):
            if address != LineAddress(first):
                raise _UnreadScriptError
            return Insertion(name, address, text)
        last = first + address.more if address.more else max(first, address.last)
        if name != "c" and last != first:
            raise _UnreadScriptError
        return LineText(name, first, last, text)

    def address(self) -> LineAddress | None:
        first = self.one_address()
        if first == 0:
            return None
        self.skip(" \t")
        if self.peek() != ",":
            return LineAddress(first)
        self.at += 1
        self.skip(" \t")
        if self.peek() == "+":
            self.at += 1
            more = self.one_address()
            if not isinstance(more, int):
                raise _UnreadScriptError
            return LineAddress(first, 0, more)
        last = self.one_address()
        if last == 0:
            raise _UnreadScriptError
        return LineAddress(first, last)

    def one_address(self) -> int | Expression | None:
        """Read one address; 0: there is none."""
        found = _NUMBER.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            if int(found[0]) == 0:
                raise _UnreadScriptError
            return int(found[0])
        if self.peek() == "$":
            self.at += 1
            return None
        if self.peek() != "/":
            return 0
        self.at += 1
        found_expression = expression(self.until("/"), self.dialect)
        if found_expression is None:
            raise _UnreadScriptError
        return found_expression

    def until(self, delimiter: str) -> str:
        """Read up to the next delimiter that has no backslash."""
        start = self.at
        out: list[str] = []
        while self.peek() != delimiter:
            char = self.peek()
            if not char or (char == "\n" and self.dialect == "perl"):
                raise _UnreadScriptError
            if char == "[" and "]" in self.text[self.at :] and delimiter in self._bracket():
                raise _UnreadScriptError
            if char == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                if following == delimiter and delimiter not in _CLEAR_DELIMITERS:
                    raise _UnreadScriptError
                out.append(following if following == delimiter else char + following)
                self.at += 2
                continue
            out.append(char)
            self.at += 1
        if self.at > len(self.text) or start > len(self.text):
            raise _UnreadScriptError
        self.at += 1
        return "".join(out)

    def _bracket(self) -> str:
        return self.text[self.at : self.text.index("]", self.at + 1)]

    def substitution(self, address: LineAddress | None) -> Substitution:
        if self.peek() != "s" or len(self.text) < self.at + 4:
            raise _UnreadScriptError
        delimiter = self.text[self.at + 1]
        if delimiter.isalnum() or delimiter in "\\\n" or (self.dialect == "perl" and delimiter not in "/|#,!"):
            raise _UnreadScriptError
        self.at += 2
        found = expression(self.until(delimiter), self.dialect)
        if found is None or (self.dialect == "perl" and _is_otherwise_in_perl(found)):
            raise _UnreadScriptError
        template = self.template(delimiter, re.compile(found.pattern).groups)
        flags = re.compile(r"[gI\d]*" if self.dialect != "perl" else r"[gi]*").match(self.text, self.at)
        text = flags[0] if flags else ""
        self.at += len(text)
        numbers = re.findall(r"\d+", text)
        if len(numbers) > 1 or (numbers and int(numbers[0]) == 0) or len(set(text) - set("0123456789")) > 2:
            raise _UnreadScriptError
        occurrence = int(numbers[0]) if numbers else 1
        return Substitution(found, template, "g" in text, occurrence, "i" in text.lower(), address)

    def template(self, delimiter: str, groups: int) -> tuple[str | int, ...]:
        parts: list[str | int] = []
        perl = self.dialect == "perl"
        while (char := self.peek()) != delimiter:
            self.at += 1
            if not char or (char == "\n") or (perl and char == "@"):
                raise _UnreadScriptError
            if char == "&" and not perl:
                parts.append(0)
            elif char == "\\" or (char == "$" and perl):
                parts.append(self._escaped(delimiter, groups, is_group=char == "$"))
            else:
                parts.append(char)
        self.at += 1
        joined: list[str | int] = []
        for part in parts:
            last = joined[-1] if joined else 0
            if isinstance(part, str) and isinstance(last, str):
                joined[-1] = last + part
            else:
                joined.append(part)
        return tuple(joined)

    def _escaped(self, delimiter: str, groups: int, *, is_group: bool) -> str | int:
        char = self.peek()
        self.at += 1
        if not char or char == "0":
            raise _UnreadScriptError
        if char.isdigit():
            if int(char) > groups or (self.dialect == "perl" and (not is_group or self.peek().isdigit())):
                raise _UnreadScriptError
            return int(char)
        if is_group or (delimiter == char and char not in _CLEAR_DELIMITERS):
            raise _UnreadScriptError
        if char in "nt" or (char == "\n" and self.dialect != "perl"):
            return {"n": "\n", "t": "\t"}.get(char, char)
        if char.isalnum():
            raise _UnreadScriptError
        return char


def _is_otherwise_in_perl(found: Expression) -> bool:
    """Say whether perl, which leaves the newline at the end of the line, may match it, or match nothing twice."""
    return re.search(r"\\[sWDbB]|\[\^", found.pattern) is not None or re.search(found.pattern, "") is not None
