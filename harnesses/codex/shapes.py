"""The types of a tool's arguments in the real program, and how a call is read by them.

Source  by trial of Codex 0.169.0 and 0.63.0: which fields may be null, what is refused, in which words.
Lenient unknown fields are dropped, but for `update_plan`; an object may be written as a list of its fields, in order.
Errors  `ArgumentError` (see `json_reader`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from paddock.harnesses.codex.json_reader import EOF_VALUE, ArgumentError, JsonReader


class Shape(Protocol):
    def read(self, reader: JsonReader) -> Any: ...


class StringShape:
    def read(self, reader: JsonReader) -> str:
        if reader.peek() != b'"':
            raise reader.not_a("a string")
        return reader.string()


class BoolShape:
    def read(self, reader: JsonReader) -> bool:
        if reader.peek() not in (b"t", b"f"):
            raise reader.not_a("a boolean")
        return reader.word().endswith("true`")


@dataclass(frozen=True)
class IntegerShape:
    """A number without a fraction."""

    rust_name: str
    low: int
    high: int

    def read(self, reader: JsonReader) -> int:
        found = reader.peek()
        if found != b"-" and not found.isdigit():
            raise reader.not_a(self.rust_name)
        start = reader.at
        number = reader.number()
        if number.whole is None:
            reader.at = start
            raise reader.not_a(self.rust_name, number=True)
        if not self.low <= number.whole <= self.high:
            raise reader.here(f"invalid value: {number.rust_name}, expected {self.rust_name}")
        return number.whole


@dataclass(frozen=True)
class OptionalShape:
    """A shape, or null."""

    inner: Shape

    def read(self, reader: JsonReader) -> Any:
        if reader.peek() == b"n":
            reader.word()
            return None
        return self.inner.read(reader)


@dataclass(frozen=True)
class EnumShape:
    names: tuple[str, ...]

    def read(self, reader: JsonReader) -> str:
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

    def _name(self, reader: JsonReader) -> str:
        name = StringShape().read(reader)
        if name not in self.names:
            raise reader.here(f"unknown variant `{name}`, expected {_either(self.names)}")
        return name


@dataclass(frozen=True)
class ListShape:
    inner: Shape

    def read(self, reader: JsonReader) -> list[Any]:
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
class ObjectShape:
    """An object."""

    rust_name: str
    """The name of its type in the program."""
    fields: Mapping[str, Shape]
    required: frozenset[str]
    strict: bool = False
    """Other fields are refused."""

    def read(self, reader: JsonReader) -> dict[str, Any]:
        found = reader.peek()
        if found not in (b"{", b"["):
            raise reader.not_a(f"struct {self.rust_name}")
        reader.at += 1
        try:
            return self._from_list(reader) if found == b"[" else self._from_object(reader)
        except ArgumentError as wrong:
            if wrong.at is None:
                closed = reader.peek() == (b"}" if found == b"{" else b"]")
                wrong.at = reader.at + closed
            raise

    def _from_object(self, reader: JsonReader) -> dict[str, Any]:
        read: dict[str, Any] = {}
        first = True
        while _key_follows(reader, first=first):
            first = False
            name = reader.string()
            if name not in self.fields:
                if self.strict:
                    raise ArgumentError(f"unknown field `{name}`, expected {_either(tuple(self.fields))}", None)
                reader.colon()
                reader.ignore()
                continue
            if name in read:
                raise ArgumentError(f"duplicate field `{name}`", None)
            reader.colon()
            read[name] = self.fields[name].read(reader)
        missing = next((name for name in self.fields if name in self.required and name not in read), None)
        if missing is not None:
            raise ArgumentError(f"missing field `{missing}`", None)
        reader.at += 1
        return read

    def _from_list(self, reader: JsonReader) -> dict[str, Any]:
        read: dict[str, Any] = {}
        for name, shape in self.fields.items():
            stop = reader.peek()
            if stop == b"]":
                if name not in self.required and self.required:
                    continue
                count = f"{len(self.fields)} element{'s' if len(self.fields) > 1 else ''}"
                index = list(self.fields).index(name)
                raise ArgumentError(f"invalid length {index}, expected struct {self.rust_name} with {count}", None)
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


def _key_follows(reader: JsonReader, *, first: bool) -> bool:
    """Move to the next key; False: to the closing brace."""
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
    """Read the whole of `text` by a shape. Raises ArgumentError."""
    reader = JsonReader(text)
    value = shape.read(reader)
    if reader.peek():
        raise reader.next("trailing characters")
    return value
