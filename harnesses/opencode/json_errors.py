"""The messages of the program's JSON parser (JavaScriptCore's, in Bun) for a text that is no JSON.

Source  by trial of the program, version 1.18.33: the first thing that a reader from the left can't go on with.
Law     a character that begins no token is told before what was expected in its place.
"""

import re
from typing import NamedTuple, NoReturn

_SPACE = re.compile(r"[ \t\n\r]*")
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_DIGITS = re.compile(r"[0-9]+")
_PUNCTUATION = "{}[],:().;"
_LITERALS = ("true", "false", "null")
_TRAILING = "Unable to parse JSON string"


class _JsonError(Exception):
    """Carries the parser's message."""


class _Token(NamedTuple):
    kind: str
    """`string`, `number`, `name`, `end`, or the character itself."""
    text: str
    end: int


def json_error(text: str) -> str:
    """Return the parser's message for a text that is no JSON, without its prefix."""
    reader = _JsonScanner(text)
    try:
        reader.value()
    except _JsonError as error:
        return str(error)
    except RecursionError:
        pass
    return _TRAILING


class _JsonScanner:
    """Reads one value from the left."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def value(self) -> None:
        token = self._next()
        match token.kind:
            case "{":
                self._object()
            case "[":
                self._array()
            case "end":
                self._fail("Unexpected EOF")
            case "name" if token.text not in _LITERALS:
                self._fail(f'Unexpected identifier "{token.text}"')
            case "string" | "number" | "name":
                pass
            case _:
                self._fail(f"Unexpected token '{token.text}'")

    def _object(self) -> None:
        token = self._next()
        if token.kind == "}":
            return
        if token.kind != "string":
            self._fail("Expected '}'")
        while True:
            if self._next().kind != ":":
                self._fail("Expected ':' before value in object property definition")
            self.value()
            token = self._next()
            if token.kind == "}":
                return
            if token.kind != ",":
                self._fail("Expected '}'")
            if self._next().kind != "string":
                self._fail("Property name must be a string literal")

    def _array(self) -> None:
        if self._peek().kind == "]":
            self._next()
            return
        while True:
            self.value()
            token = self._next()
            if token.kind == "]":
                return
            if token.kind != ",":
                self._fail("Expected ']'")
            if self._peek().kind == "]":
                self._fail("Unexpected comma at the end of array expression")

    def _fail(self, message: str) -> NoReturn:
        raise _JsonError(message)

    def _next(self) -> _Token:
        token = self._peek()
        self._at = token.end
        return token

    def _peek(self) -> _Token:
        start = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # it matches the empty text
        char = self._text[start : start + 1]
        if not char:
            return _Token("end", "", start)
        if char == '"':
            return _Token("string", "", self._string_end(start + 1))
        if char == "-" or (char.isascii() and char.isdigit()):
            return _Token("number", "", self._number_end(start))
        if name := _NAME.match(self._text, start):
            return _Token("name", name[0], name.end())
        if char == "'":
            self._fail("Single quotes (') are not allowed in JSON")
        if char not in _PUNCTUATION:
            self._fail(f"Unrecognized token '{char}'")
        return _Token(char, char, start + 1)

    def _string_end(self, at: int) -> int:
        text = self._text
        while at < len(text) and text[at] >= " ":
            if text[at] == '"':
                return at + 1
            at = self._escape_end(at + 1) if text[at] == "\\" else at + 1
        return self._fail("Unterminated string")

    def _escape_end(self, at: int) -> int:
        char = self._text[at : at + 1]
        if char == "u":
            digits = self._text[at + 1 : at + 5]
            if len(digits) < 4:
                self._fail("\\u must be followed by 4 hex digits")
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                self._fail(f'"\\u{digits}" is not a valid unicode escape')
            return at + 5
        if char and char not in '"\\/bfnrt':
            self._fail(f"Invalid escape character {char}")
        return at + 1

    def _number_end(self, at: int) -> int:
        text = self._text
        at += text[at] == "-"
        digits = _DIGITS.match(text, at)
        if digits is None:
            self._fail("Invalid number")
        at = at + 1 if text[at] == "0" else digits.end()
        if text[at : at + 1] == ".":
            digits = _DIGITS.match(text, at + 1)
            if digits is None:
                self._fail("Invalid digits after decimal point")
            at = digits.end()
        exponent = re.compile(r"[eE][+-]?[0-9]+").match(text, at)
        return exponent.end() if exponent else at
