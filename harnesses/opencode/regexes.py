"""Regular expressions of ripgrep as POSIX extended ones, which any grep in a sandbox takes.

Law     what decides whether a line matches is kept: lazy repetition, names of groups and capturing do not. Classes such
        as `\\d` are ASCII here. `(?i)` at the start makes the whole expression ignore case, `(?x)` leaves blanks out;
        other flags are dropped. Sets of classes (`[a&&b]`) are taken as plain characters.
Errors  RegexError in ripgrep's words, with the place marked, for what it refuses: brackets, repetitions, unknown
        escapes, look-around, backreferences.
"""

import re
from typing import NamedTuple, NoReturn

_CLASSES = {"d": "0-9", "w": "[:alnum:]_", "s": "[:space:]"}
_CONTROLS = {"t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "n": "\n"}
_EDGES = {"A": "^", "z": "$", "b": r"\b", "B": r"\B", "<": r"\<", ">": r"\>"}
_UNICODE = {"L": "[:alpha:]", "Lu": "[:upper:]", "Ll": "[:lower:]", "N": "[:digit:]", "P": "[:punct:]"}
_CODE = re.compile(r"[xuU](?:\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{2,8}))")
_DASH = "\ue000"
"""An escaped dash in a class, where a plain one makes a range."""
_WIDTH = {"x": 2, "u": 4, "U": 8}
_PROPERTY = re.compile(r"[pP](?:\{(\w+)\}|(\w))")
_COUNT = re.compile(r"\{ *+(\d++) *+(?:, *+(\d*+) *+)?\}")
_FLAGS = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_NAMED = re.compile(r"\?P?<[A-Za-z_]\w*>")
_LOOK = re.compile(r"\?<?[=!]")
_PCRE2 = "\n\nConsider enabling PCRE2 with the --pcre2 flag, which can handle backreferences\nand look-around."


class RegexError(ValueError):
    """Carries ripgrep's message."""


class PosixPattern(NamedTuple):
    """A POSIX extended regular expression."""

    pattern: str
    ignore_case: bool
    never: bool
    """It asks for a line end inside a line: nothing matches."""


def to_posix(text: str) -> PosixPattern:
    return _Translator(text).run()


class _Translator:
    """Reads from the left; `_out` is what it has written."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._out: list[str] = []
        self._groups: list[int] = []
        self._repeatable = False
        self._ignore_case = False
        self._never = False
        self._verbose = False
        self._closed_early = False

    def run(self) -> PosixPattern:
        while self._at < len(self._text):
            self._translate_char(self._text[self._at])
        if self._closed_early:
            self._fail(len(self._text), 1, "unopened group")
        if self._groups:
            self._fail(self._groups[-1], 1, "unclosed group")
        return PosixPattern("".join(self._out), self._ignore_case, self._never)

    def _translate_char(self, char: str) -> None:
        match char:
            case "\\":
                self._put(*self._escape(self._at, in_class=False))
            case "[":
                self._class()
            case "(":
                self._open()
            case ")":
                self._close()
            case "*" | "+" | "?" | "{":
                self._repeat(char)
            case " " | "\t" if self._verbose:
                self._at += 1
            case "|":
                self._put("|", 1, repeatable=False)
            case "\n":
                self._never = True
                self._put("", 1)
            case "}" | "]":
                self._put("\\}" if char == "}" else "]", 1)
            case _:
                self._put(char, 1, repeatable=True)

    def _put(self, text: str, width: int, *, repeatable: bool = True) -> None:
        self._out.append(text)
        self._at += width
        self._repeatable = repeatable

    def _open(self) -> None:
        start = self._at + 1
        if look := _LOOK.match(self._text, start):
            why = "look-around, including look-ahead and look-behind, is not supported" + _PCRE2
            self._fail(self._at, 1 + len(look[0]), why)
        if named := _NAMED.match(self._text, start):
            start = named.end()
        elif flags := _FLAGS.match(self._text, start):
            self._ignore_case |= "i" in flags[1] and start == 1
            self._verbose |= "x" in flags[1]
            start = flags.end()
            if flags[3] == ")":
                self._at = start
                return
        self._groups.append(self._at)
        self._put("(", start - self._at, repeatable=False)

    def _close(self) -> None:
        if self._groups:
            self._groups.pop()
        elif self._closed_early:
            self._fail(self._at, 1, "unopened group")
        else:
            # It closes the group that the program puts around the expression.
            self._closed_early = True
        self._put(")", 1)

    def _repeat(self, char: str) -> None:
        if not self._repeatable:
            self._fail(self._at, 1, "repetition operator missing expression")
        width = 1
        if char == "{":
            count = _COUNT.match(self._text, self._at)
            if count is None:
                self._fail(self._at + 1, 1, "repetition quantifier expects a valid decimal")
            if count[2] and int(count[2]) < int(count[1]):
                why = "invalid repetition count range, the start must be <= the end"
                self._fail(self._at, len(count[0]), why)
            width, char = len(count[0]), count[0].replace(" ", "")
        self._put(char, width)
        # Lazy or not, and how often in a row, is one line to grep.
        while self._text[self._at : self._at + 1] in ("?", "*", "+"):
            self._at += 1

    def _class(self) -> None:
        start = self._at
        at = start + 1
        negated = self._text[at : at + 1] == "^"
        at += negated
        parts: list[str] = []
        while (char := self._text[at : at + 1]) != "]" or not parts:
            if not char:
                self._fail(start, 1, "unclosed character class")
            named = re.compile(r"\[:\w+:\]").match(self._text, at)
            if char == "\\":
                part, width = self._escape(at, in_class=True)
            else:
                part = named[0] if named else char
                width = len(part)
            parts.append(part)
            at += width
        self._put(_bracket(parts, negated=negated), at + 1 - start)

    def _escape(self, at: int, *, in_class: bool) -> tuple[str, int]:
        """From a backslash: what it means, and how wide it is."""
        char = self._text[at + 1 : at + 2]
        if not char:
            self._fail(at, 1, "incomplete escape sequence, reached end of pattern prematurely")
        if char in "dwsDWS":
            inner = _CLASSES[char.lower()]
            return (inner if in_class and char.islower() else f"[{'^' if char.isupper() else ''}{inner}]"), 2
        if code := _CODE.match(self._text, at + 1):
            digits = code[1] or code[2][: _WIDTH[char]]
            return _literal(chr(int(digits, 16) or 1), in_class=in_class), 1 + len(code[0]) - len(code[2] or "") + (
                len(digits) if code[2] else 0
            )
        if prop := _PROPERTY.match(self._text, at + 1):
            inner = _UNICODE.get(prop[1] or prop[2], "[:alpha:]")
            return (inner if in_class else f"[{'^' if char == 'P' else ''}{inner}]"), 1 + len(prop[0])
        if char.isdigit():
            self._fail(at, 2, "backreferences are not supported" + _PCRE2)
        if char in _EDGES and not in_class:
            return _EDGES[char], 2
        if char == "n" and not in_class:
            self._never = True
            return "", 2
        if char in _CONTROLS:
            return _CONTROLS[char], 2
        if char.isalpha():
            self._fail(at, 2, "unrecognized escape sequence")
        return _literal(char, in_class=in_class), 2

    def _fail(self, at: int, width: int, message: str) -> NoReturn:
        # The program puts the expression into a group, which moves the place by three.
        mark = " " * (at + (0 if message == "unclosed group" else 3)) + "^" * width
        raise RegexError(f"rg: regex parse error:\n    (?:{self._text})\n    {mark}\nerror: {message}")


def _literal(char: str, *, in_class: bool) -> str:
    if in_class:
        return _DASH if char == "-" else char
    return "\\" + char if char in r".[]{}()*+?|^$\\" else char


def _bracket(parts: list[str], *, negated: bool) -> str:
    """A POSIX bracket: `]` first, `-` last, as nothing can be escaped there."""
    closing = [part for part in parts if part == "]"]
    dashes = ["-"] if "-" in (parts[0], parts[-1]) or _DASH in parts else []
    inner = [part for part in parts if part not in ("]", _DASH)]
    inner = inner[1:] if inner[:1] == ["-"] else inner
    inner = inner[:-1] if inner[-1:] == ["-"] else inner
    carets = ["^"] if "^" in inner and inner[0] == "^" and not negated else []
    inner = inner[1:] if carets else inner
    return "[" + ("^" if negated else "") + "".join(closing[:1] + inner + carets + dashes) + "]"
