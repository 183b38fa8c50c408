"""Regular expressions of sed, perl and Python as one form: a pattern of Python's `re`, and what is literal in it.

Source  "Regular Expressions" of the GNU sed manual (basic and extended), perlre, `re`.
Law     only what all match alike is read: characters, `.`, brackets, anchors at the ends, groups that nothing repeats,
        and repeats of one character. Alternatives are left out, since POSIX takes the longest one. Locales are UTF-8.
None    everything else, and more than `_MAX_REPEATS` repeats: what they match takes too long to find out.
"""

import re
from dataclasses import dataclass
from typing import Literal

Dialect = Literal["basic", "extended", "perl"]

_MAX_REPEATS = 3
_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\s",
    "blank": r" \t",
    "xdigit": "0-9a-fA-F",
}
_INTERVAL = re.compile(r"(\d{1,3})(,(\d{0,3}))?")
_ESCAPES = {"n": r"\n", "t": r"\t", "w": r"\w", "W": r"\W", "s": r"\s", "S": r"\S", "b": r"\b", "B": r"\B"}
_WORD_EDGES = {"<": r"\b(?=\w)", ">": r"\b(?<=\w)"}


@dataclass(frozen=True, slots=True)
class Expression:
    """What a regular expression matches."""

    pattern: str
    """For `re`, with the flag DOTALL."""
    literal: str | None
    """The text that it stands for, where it is one; a bare dot between letters, as in `os.path`, stands for itself."""
    repeats: int = 0


def expression(text: str, dialect: Dialect) -> Expression | None:
    """Return what the text matches in a dialect; None: it holds something else."""
    try:
        return _ExpressionReader(text, dialect).read()
    except _UnreadExpressionError:
        return None


class _UnreadExpressionError(Exception):
    """Something in the expression is not read here."""


class _ExpressionReader:
    """Reads an expression from left to right."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text = text
        self.basic = dialect == "basic"
        self.perl = dialect == "perl"
        self.at = 0
        self.out: list[str] = []
        self.literal: list[str] | None = []
        self.groups = 0
        self.repeats = 0
        self.repeatable = False

    def read(self) -> Expression:
        while self.at < len(self.text):
            self.step()
        if not self.out or self.groups or self.repeats > _MAX_REPEATS:
            raise _UnreadExpressionError
        return Expression("".join(self.out), None if self.literal is None else "".join(self.literal), self.repeats)

    def step(self) -> None:
        char = self.text[self.at]
        self.at += 1
        if char == "\\":
            self.escape()
        elif char == "[":
            self.emit(self.bracket(), None)
        elif char == ".":
            around = self.text[self.at - 2 : self.at - 1], self.text[self.at : self.at + 1]
            named = all(re.fullmatch(r"\w", side) for side in around)
            self.emit(".", "." if named else None)
        elif char == "^":
            self.anchor(r"\A", at_edge=self.at == 1)
        elif char == "$":
            self.anchor(r"\Z", at_edge=self.at == len(self.text))
        elif char == "*":
            if self.basic and not self.out:
                self.emit(r"\*", "*")
            else:
                self.repeat("*")
        elif not self.basic and char in "()+?{|":
            self.operator(char)
        elif self.perl and char == "@":
            raise _UnreadExpressionError
        else:
            self.emit(re.escape(char), char)

    def escape(self) -> None:
        if self.at == len(self.text):
            raise _UnreadExpressionError
        char = self.text[self.at]
        self.at += 1
        if char in "()+?{|" and self.basic:
            self.operator(char)
        elif char in _WORD_EDGES and not self.perl:
            self.out.append(_WORD_EDGES[char])
            self.literal, self.repeatable = None, False
        elif char in _ESCAPES or (char == "d" and self.perl):
            self.emit(_ESCAPES.get(char, r"\d"), {"n": "\n", "t": "\t"}.get(char))
            self.repeatable = char not in "bB"
        elif char.isalnum() or not char.isascii() or char in "`'\n<>":
            raise _UnreadExpressionError
        else:
            self.emit(re.escape(char), char)

    def operator(self, char: str) -> None:
        if char == "(":
            if self.text[self.at : self.at + 1] in ("?", "*"):
                raise _UnreadExpressionError
            self.groups += 1
            self.out.append("(")
            self.literal, self.repeatable = None, False
        elif char == ")":
            if not self.groups:
                raise _UnreadExpressionError
            self.groups -= 1
            self.out.append(")")
            self.repeatable = False
        elif char == "{":
            self.interval()
        elif char == "|":
            raise _UnreadExpressionError
        else:
            self.repeat(char)

    def interval(self) -> None:
        found = _INTERVAL.match(self.text, self.at)
        end = r"\}" if self.basic else "}"
        if not found or not self.text.startswith(end, found.end()):
            raise _UnreadExpressionError
        self.at = found.end() + len(end)
        self.repeat("{" + found[0] + "}")

    def repeat(self, operator: str) -> None:
        if not self.repeatable:
            raise _UnreadExpressionError
        self.out.append(operator)
        self.literal, self.repeatable = None, False
        self.repeats += 1

    def anchor(self, pattern: str, *, at_edge: bool) -> None:
        if at_edge:
            self.out.append(pattern)
            self.literal, self.repeatable = None, False
        elif self.basic:
            self.emit(re.escape(self.text[self.at - 1]), self.text[self.at - 1])
        else:
            raise _UnreadExpressionError

    def bracket(self) -> str:
        start = self.at
        negated = self.text.startswith("^", start)
        at = start + negated
        items: list[str] = []
        while at < len(self.text):
            char = self.text[at]
            if char == "]" and at > start + negated:
                self.at = at + 1
                return f"[{'^' if negated else ''}{''.join(items)}]"
            if self.text.startswith("[:", at):
                end = self.text.find(":]", at)
                name = self.text[at + 2 : end]
                if end < 0 or name not in _CLASSES:
                    raise _UnreadExpressionError
                items.append(_CLASSES[name])
                at = end + 2
                continue
            if self.text.startswith(("[.", "[="), at) or char == "\n":
                raise _UnreadExpressionError
            if char == "\\":
                if self.perl or self.text[at + 1 : at + 2] in ("n", "t", "]", "\\"):
                    raise _UnreadExpressionError
                items.append("\\\\")
            else:
                items.append(char if char == "-" else re.escape(char))
            at += 1
        raise _UnreadExpressionError

    def emit(self, pattern: str, literal: str | None) -> None:
        self.out.append(pattern)
        self.repeatable = True
        if literal is None:
            self.literal = None
        elif self.literal is not None:
            self.literal.append(literal)
