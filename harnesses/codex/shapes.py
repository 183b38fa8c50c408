"""What the arguments of each tool look like to the real program, and reading a call by it.

Source  by trial of Codex 0.169.0 and 0.63.0: which fields may be null, what is refused, in which words.
Lenient unknown fields are dropped, but for `update_plan`; an object may be written as a list of its fields, in order.
Errors  `Wrong` (see `reader`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from paddock.harnesses.codex.reader import EOF_VALUE, Reader, Wrong


class Shape(Protocol):
    def read(self, reader: Reader) -> Any: ...


class Text:
    def read(self, reader: Reader) -> str:
        if reader.peek() != b'"':
            raise reader.not_a("a string")
        return reader.string()


class Flag:
    def read(self, reader: Reader) -> bool:
        if reader.peek() not in (b"t", b"f"):
            raise reader.not_a("a boolean")
        return reader.word().endswith("true`")


@dataclass(frozen=True)
class Whole:
    """A number without a fraction."""

    called: str
    low: int
    high: int

    def read(self, reader: Reader) -> int:
        found = reader.peek()
        if found != b"-" and not found.isdigit():
            raise reader.not_a(self.called)
        start = reader.at
        number = reader.number()
        if number.whole is None:
            reader.at = start
            raise reader.not_a(self.called, number=True)
        if not self.low <= number.whole <= self.high:
            raise reader.here(f"invalid value: {number.called}, expected {self.called}")
        return number.whole


@dataclass(frozen=True)
class Maybe:
    """Or null."""

    inner: Shape

    def read(self, reader: Reader) -> Any:
        if reader.peek() == b"n":
            reader.word()
            return None
        return self.inner.read(reader)


@dataclass(frozen=True)
class OneOf:
    names: tuple[str, ...]

    def read(self, reader: Reader) -> str:
        found = reader.peek()
        if found == b"{":
            reader.at += 1
            reader.peek()
            name = self._name(reader)
            reader.colon()
            if reader.peek() != b"n":
                raise reader.not_a("unit")
            reader.word()
            if reader.peek() != b"}":
                raise reader.next("expected value")
            reader.at += 1
            return name
        if found != b'"':
            raise reader.next("expected value" if found else EOF_VALUE)
        return self._name(reader)

    def _name(self, reader: Reader) -> str:
        name = Text().read(reader)
        if name not in self.names:
            raise reader.here(f"unknown variant `{name}`, expected {_either(self.names)}")
        return name


@dataclass(frozen=True)
class ListOf:
    inner: Shape

    def read(self, reader: Reader) -> list[Any]:
        if reader.peek() != b"[":
            raise reader.not_a("a sequence")
        reader.at += 1
        found: list[Any] = []
        while (stop := reader.peek()) != b"]":
            if found:
                if stop != b",":
                    raise reader.next("expected `,` or `]`" if stop else "EOF while parsing a list")
                reader.at += 1
                if reader.peek() == b"]":
                    raise reader.next("trailing comma")
            elif not stop:
                raise reader.here("EOF while parsing a list")
            found.append(self.inner.read(reader))
        reader.at += 1
        return found


@dataclass(frozen=True)
class Fields:
    """An object."""

    called: str
    """The name of its type in the program."""
    fields: Mapping[str, Shape]
    required: frozenset[str]
    strict: bool = False
    """Other fields are refused."""

    def read(self, reader: Reader) -> dict[str, Any]:
        found = reader.peek()
        if found not in (b"{", b"["):
            raise reader.not_a(f"struct {self.called}")
        reader.at += 1
        try:
            return self._from_list(reader) if found == b"[" else self._from_object(reader)
        except Wrong as wrong:
            if wrong.at is None:
                closed = reader.peek() == (b"}" if found == b"{" else b"]")
                wrong.at = reader.at + closed
            raise

    def _from_object(self, reader: Reader) -> dict[str, Any]:
        read: dict[str, Any] = {}
        first = True
        while _key_follows(reader, first=first):
            first = False
            name = reader.string()
            if name not in self.fields:
                if self.strict:
                    raise Wrong(f"unknown field `{name}`, expected {_either(tuple(self.fields))}", None)
                reader.colon()
                reader.ignore()
                continue
            if name in read:
                raise Wrong(f"duplicate field `{name}`", None)
            reader.colon()
            read[name] = self.fields[name].read(reader)
        missing = next((name for name in self.fields if name in self.required and name not in read), None)
        if missing is not None:
            raise Wrong(f"missing field `{missing}`", None)
        reader.at += 1
        return read

    def _from_list(self, reader: Reader) -> dict[str, Any]:
        read: dict[str, Any] = {}
        for name, shape in self.fields.items():
            stop = reader.peek()
            if stop == b"]":
                if name not in self.required and self.required:
                    continue
                count = f"{len(self.fields)} element{'s' if len(self.fields) > 1 else ''}"
                index = list(self.fields).index(name)
                raise Wrong(f"invalid length {index}, expected struct {self.called} with {count}", None)
            if read:
                if stop != b",":
                    raise reader.next("expected `,` or `]`" if stop else "EOF while parsing a list")
                reader.at += 1
            read[name] = shape.read(reader)
        stop = reader.peek()
        if stop != b"]":
            reader.at += stop == b","
            raise reader.next("trailing characters" if stop else "EOF while parsing a list")
        reader.at += 1
        return read


def _key_follows(reader: Reader, *, first: bool) -> bool:
    """Stands at the next key, or at the closing brace."""
    found = reader.peek()
    if found == b"}":
        return False
    if not found:
        raise reader.here("EOF while parsing an object")
    if not first:
        if found != b",":
            raise reader.next("expected `,` or `}`")
        reader.at += 1
        found = reader.peek()
        if found == b"}":
            raise reader.next("trailing comma")
    if found != b'"':
        raise reader.next("key must be a string" if found else EOF_VALUE)
    return True


def _either(names: tuple[str, ...]) -> str:
    quoted = [f"`{name}`" for name in names]
    if len(quoted) > 2:
        return "one of " + ", ".join(quoted)
    return " or ".join(quoted)


def read_as(shape: Shape, text: str) -> Any:
    """The whole of `text`, read as that."""
    reader = Reader(text)
    value = shape.read(reader)
    if reader.peek():
        raise reader.next("trailing characters")
    return value
