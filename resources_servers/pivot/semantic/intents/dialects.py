"""Regular expressions of search programs as ones of Python's syntax.

Source  the manuals of GNU grep (basic, extended, fixed), PCRE2 and of Rust's regex, which ripgrep has.
Shapes  words' ends that Python cannot spell become the characters `WORD_START` and `WORD_END`.
Errors  UnknownPatternError: a part whose meaning is not known, or is another one from program to program.
"""

import re
from typing import Literal

Dialect = Literal["basic", "extended", "fixed", "perl", "rust"]
WORD_START, WORD_END = "\ue000", "\ue001"
"""`\\<` and `\\>`."""
HALF_START, HALF_END = "\ue002", "\ue003"
"""Before a match no word's character, or behind it: what the option `-w` asks for."""
_MARKS = frozenset({WORD_START, WORD_END, HALF_START, HALF_END})
_MAX_CHARS = 1000
_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s",
    "blank": r"\ \t", "xdigit": "0-9A-Fa-f", "punct": r"!-/:-@\[-`{-~", "word": r"\w",
}  # fmt: skip
_BASIC_OPERATORS = frozenset("(){}|+?")
_SHARED_LETTERS = frozenset("bBwWsS")
_PERL_LETTERS = _SHARED_LETTERS | frozenset("dDtnrfvxu")
_PERL_CLASS_LETTERS = frozenset("wWsSdDtnrfv")
_REPEATS = frozenset("*+?{")
_REPEAT_ENDS = frozenset("*+?}")
_ANCHORS = frozenset({WORD_START, WORD_END, r"\b", r"\B", "^", "$"})


class UnknownPatternError(ValueError):
    """A pattern of which it is not known what it matches."""


def to_python(pattern: str, dialect: Dialect) -> str:
    if len(pattern) > _MAX_CHARS or _MARKS & set(pattern) or "\0" in pattern:
        raise UnknownPatternError
    if dialect in ("perl", "rust"):
        if "\n" in pattern:
            raise UnknownPatternError
        return _DialectReader(pattern, dialect).text()
    return "|".join(
        re.escape(line) if dialect == "fixed" else _DialectReader(line, dialect).text() for line in pattern.split("\n")
    )


class _DialectReader:
    """One pass over a pattern; `at` is where it stands."""

    def __init__(self, pattern: str, dialect: Dialect) -> None:
        self.pattern = pattern
        self.dialect = dialect
        self.posix = dialect in ("basic", "extended")
        self.at = 0

    def text(self) -> str:
        parts: list[str] = []
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if char == "\\":
                parts.append(self.escape(parts))
            elif char == "[":
                parts.append(self.bracket())
            else:
                self.at += 1
                parts.append(self.plain(char, parts))
            if parts[-1] in _REPEATS and parts[-2:-1] and parts[-2] in _ANCHORS:
                # Programs differ in whether this repeats the anchor or stands for itself.
                raise UnknownPatternError
            if self.posix and parts[-1] == "?" and parts[-2:-1] and parts[-2] in _REPEAT_ENDS:
                # Repeats the repeat; to Python it is a lazy one.
                raise UnknownPatternError
        return "".join(parts)

    def plain(self, char: str, parts: list[str]) -> str:
        if char == "(" and not self.posix and self.pattern.startswith("?", self.at):
            return self.group()
        if self.dialect != "basic":
            return char
        begins = not parts or parts[-1] in ("(", "|")
        if char in _BASIC_OPERATORS:
            return "\\" + char
        if char == "*" and (begins or (parts[-1] == "^" and self.at <= len(self.pattern))):
            return r"\*"
        if char == "^" and not begins:
            return r"\^"
        if char == "$" and self.at < len(self.pattern) and not self.pattern.startswith(("\\)", "\\|"), self.at):
            return r"\$"
        return char

    def group(self) -> str:
        for opening, python in (("?:", "(?:"), ("?P<", "(?P<"), ("?i)", "(?i)")):
            if self.pattern.startswith(opening, self.at):
                if opening == "?i)" and self.at != 1:
                    break
                self.at += len(opening)
                return python
        raise UnknownPatternError

    def escape(self, parts: list[str]) -> str:
        char = self.pattern[self.at + 1 : self.at + 2]
        self.at += 2
        if self.dialect == "basic" and char in _BASIC_OPERATORS and char:
            if char in "+?{" and (not parts or parts[-1] in ("(", "|")):
                raise UnknownPatternError
            return char
        if char in ("<", ">") and self.dialect != "perl":
            return WORD_START if char == "<" else WORD_END
        if char in (_SHARED_LETTERS if self.posix else _PERL_LETTERS):
            if char == "b" and self.pattern.startswith("{", self.at):
                raise UnknownPatternError
            return "\\" + char
        if self.dialect == "perl" and char == "h":
            return r"[\ \t]"
        if not char or char.isalnum() or not char.isascii() or char in "`'":
            raise UnknownPatternError
        return re.escape(char)

    def bracket(self) -> str:
        """Translate a bracket expression; what is no letter or digit is escaped, so that nothing is special in it."""
        self.at += 1
        parts = ["["]
        if self.pattern.startswith("^", self.at):
            self.at += 1
            parts.append("^")
        start = self.at
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if char == "]" and self.at > start:
                self.at += 1
                return "".join(parts) + "]"
            parts.append(self.member(char, self.at == start))
        raise UnknownPatternError

    def member(self, char: str, first: bool) -> str:
        rest = self.pattern[self.at + 1 :]
        if char == "[":
            if found := re.match(r":([a-z]+):\]", rest):
                self.at += 1 + found.end()
                if found[1] not in _CLASSES or (found[1] == "word" and self.posix):
                    raise UnknownPatternError
                return _CLASSES[found[1]]
            if rest[:1] in (":", ".", "=") or self.dialect == "rust":
                raise UnknownPatternError
        if char == "\\" and not self.posix:
            self.at += 2
            if rest[:1] in _PERL_CLASS_LETTERS and rest:
                return "\\" + rest[0]
            if not rest or rest[0].isalnum() or not rest[0].isascii():
                raise UnknownPatternError
            return re.escape(rest[0])
        self.at += 1
        if self.dialect == "rust" and char in "&~-" and rest[:1] == char:
            raise UnknownPatternError
        if char == "-" and not first and rest[:1] != "]":
            return "-"
        return char if char.isalnum() else "\\" + char
