"""Arguments of a call read into a shape, with the words of serde_json for what is wrong with them.

Source  Codex is a Rust program: a model that writes bad arguments is answered in that parser's words, with the line and
        the column in bytes. Measured on Codex 0.169.0.
Law     reading goes from left to right and stops at the first thing that is wrong, be it syntax or type.
Errors  `ArgumentError`; its `at` is None until the reader has left the object that it is about.
"""

import re
from typing import NamedTuple

_DIGITS = re.compile(rb"[0-9]+")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_ESCAPES = {b'"': '"', b"\\": "\\", b"/": "/", b"b": "\b", b"f": "\f", b"n": "\n", b"r": "\r", b"t": "\t"}
_WORDS = {b"n": (b"ull", "null"), b"t": (b"rue", "boolean `true`"), b"f": (b"alse", "boolean `false`")}
_DEBUG = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
EOF_VALUE = "EOF while parsing a value"
U64_MAX, I64_MIN = (1 << 64) - 1, -(1 << 63)


class ArgumentError(Exception):
    """What is wrong with the arguments, in serde's words, and at which byte."""

    def __init__(self, text: str, at: int | None) -> None:
        super().__init__(text)
        self.text = text
        self.at = at


class JsonNumber(NamedTuple):
    text: str
    whole: int | None
    """None: a fraction, or more than 64 bits."""

    @property
    def rust_name(self) -> str:
        return f"integer `{self.whole}`" if self.whole is not None else f"floating point `{float(self.text)!r}`"


class Position(NamedTuple):
    line: int
    column: int
    """In bytes; 0: nothing of the line was read."""


class JsonReader:
    """A cursor over the bytes of a JSON text."""

    def __init__(self, text: str) -> None:
        self.data = text.encode(errors="replace")
        self.at = 0

    def peek(self) -> bytes:
        """The next byte that is no whitespace; empty at the end."""
        while self.data[self.at : self.at + 1] in (b" ", b"\n", b"\t", b"\r"):
            self.at += 1
        return self.data[self.at : self.at + 1]

    def here(self, text: str) -> ArgumentError:
        return ArgumentError(text, self.at)

    def next(self, text: str) -> ArgumentError:
        """Return an error about the next byte, which was peeked at."""
        return ArgumentError(text, min(len(self.data), self.at + 1))

    def position(self, at: int) -> "Position":
        before = self.data[:at]
        return Position(1 + before.count(10), at - before.rfind(10) - 1)

    def colon(self) -> None:
        found = self.peek()
        if found != b":":
            raise self.next("expected `:`" if found else "EOF while parsing an object")
        self.at += 1

    def word(self) -> str:
        """`null`, `true` or `false`, as Rust calls it."""
        rest, rust_name = _WORDS[self.data[self.at : self.at + 1]]
        self.at += 1
        for byte in rest:
            if self.at == len(self.data):
                raise self.here(EOF_VALUE)
            self.at += 1
            if self.data[self.at - 1] != byte:
                raise self.here("expected ident")
        return rust_name

    def number(self) -> JsonNumber:
        start = self.at
        self.at += self.data[start : start + 1] == b"-"
        first = self.data[self.at : self.at + 1]
        if not first.isdigit():
            if first:
                self.at += 1
            raise self.here("invalid number" if first else EOF_VALUE)
        self._digits()
        if first == b"0" and self.at > start + 1 + (self.data[start : start + 1] == b"-"):
            self.at = start + 1 + (self.data[start : start + 1] == b"-")
            raise self.next("invalid number")
        whole = True
        if self.data[self.at : self.at + 1] == b".":
            whole = False
            self.at += 1
            if not self._digits():
                raise self.next("invalid number" if self.at < len(self.data) else EOF_VALUE)
        if self.data[self.at : self.at + 1] in (b"e", b"E"):
            whole = False
            self.at += 1
            self.at += self.data[self.at : self.at + 1] in (b"+", b"-")
            if not self._digits():
                raise self.next("invalid number" if self.at < len(self.data) else EOF_VALUE)
        text = self.data[start : self.at].decode()
        value = int(text) if whole and len(text) < 25 and text != "-0" else None
        return JsonNumber(text, value if value is not None and I64_MIN <= value <= U64_MAX else None)

    def string(self, *, ignored: bool = False) -> str:
        """From its opening quote on. `ignored`: a lone surrogate is let through."""
        self.at += 1
        parts: list[str] = []
        while True:
            plain = _PLAIN.match(self.data, self.at)
            assert plain is not None
            parts.append(plain[0].decode())
            self.at = plain.end()
            stop = self.data[self.at : self.at + 1]
            if not stop:
                raise self.here("EOF while parsing a string")
            if stop == b'"':
                self.at += 1
                return "".join(parts)
            if stop != b"\\":
                raise self.here("control character (\\u0000-\\u001F) found while parsing a string")
            self.at += 1
            parts.append(self._escape(ignored=ignored))

    def _escape(self, *, ignored: bool) -> str:
        kind = self.data[self.at : self.at + 1]
        if not kind:
            raise self.here("EOF while parsing a string")
        self.at += 1
        if kind in _ESCAPES:
            return _ESCAPES[kind]
        if kind != b"u":
            raise self.here("invalid escape")
        first = self._hex()
        if ignored:
            return ""
        if 0xDC00 <= first <= 0xDFFF:
            raise self.here("lone leading surrogate in hex escape")
        if not 0xD800 <= first <= 0xDBFF:
            return chr(first)
        for wanted in (b"\\", b"u"):
            self.at += 1
            if self.data[self.at - 1 : self.at] != wanted:
                raise self.here("unexpected end of hex escape")
        second = self._hex()
        if not 0xDC00 <= second <= 0xDFFF:
            raise self.here("lone leading surrogate in hex escape")
        return chr(0x10000 + ((first - 0xD800) << 10) + second - 0xDC00)

    def _hex(self) -> int:
        digits = self.data[self.at : self.at + 4]
        self.at += len(digits)
        if len(digits) < 4:
            raise self.here("EOF while parsing a string")
        if not re.fullmatch(rb"[0-9a-fA-F]{4}", digits):
            raise self.here("invalid escape")
        return int(digits, 16)

    def _digits(self) -> bool:
        found = _DIGITS.match(self.data, self.at)
        self.at = found.end() if found else self.at
        return found is not None

    def ignore(self) -> None:
        """Skip any value, checking its syntax only."""
        closing: list[bytes] = []
        while True:
            opened = self._ignore_start()
            if opened:
                closing.append(opened)
                if self.peek() == opened:
                    self.at += 1
                    closing.pop()
                else:
                    self._ignore_key(opened)
                    continue
            while closing and self._ignore_end(closing[-1]):
                closing.pop()
            if not closing:
                return

    def _ignore_start(self) -> bytes:
        """What closes the value that begins here; empty: it's over already."""
        found = self.peek()
        if not found:
            raise self.here(EOF_VALUE)
        if found in (b"[", b"{"):
            self.at += 1
            return b"]" if found == b"[" else b"}"
        if found == b'"':
            self.string(ignored=True)
        elif found in _WORDS:
            self.word()
        elif found == b"-" or found.isdigit():
            self.number()
        else:
            raise self.next("expected value")
        return b""

    def _ignore_end(self, closing: bytes) -> bool:
        """True: the list or object is over; False: another value follows."""
        found = self.peek()
        if found == closing:
            self.at += 1
            return True
        if found != b",":
            kind = "a list" if closing == b"]" else "an object"
            raise self.next(f"expected `,` or `{closing.decode()}`" if found else f"EOF while parsing {kind}")
        self.at += 1
        self._ignore_key(closing)
        return False

    def _ignore_key(self, closing: bytes) -> None:
        if closing == b"]":
            return
        found = self.peek()
        if found != b'"':
            raise self.next("key must be a string" if found else "EOF while parsing an object")
        self.string(ignored=True)
        self.colon()

    def not_a(self, expected: str, *, number: bool = False) -> ArgumentError:
        """Return the error for a value that is not `expected`, as Rust says it. `number`: any number was expected."""
        found = self.peek()
        if not found:
            return self.here(EOF_VALUE)
        if found in _WORDS:
            rust_name = self.word()
        elif found == b"-" or found.isdigit():
            value = self.number()
            rust_name = value.rust_name if number or value.whole is not None else "number"
        elif found == b'"':
            rust_name = f'string "{"".join(_DEBUG.get(char, char) for char in self.string())}"'
        elif found in (b"[", b"{"):
            rust_name = "sequence" if found == b"[" else "map"
        else:
            return self.next("expected value")
        return self.here(f"invalid type: {rust_name}, expected {expected}")
