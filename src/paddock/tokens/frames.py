"""What a template writes after an answer, with holes where messages' own strings go: kept, and filled.

Shapes  all that a template can see of a request but those strings: roles, names, how many parts a content has, which
        strings are empty, the tools and the arguments. Strings: contents, and ids of calls. A shape has one frame, or,
        where the template asks what the strings say, none. New messages of an assistant have no shape.
Keys    a shape as `marshal` writes it, of JSON values: unlike JSON it tells a tuple from a list and NaN from None, and
        it keeps the order of keys.
Bounds  of the shapes of one template, those used last: 512 of them, 8 MiB; a key has at most 1 MiB, so what has more
        tools has no shape. A template of which the first 64 got no frame is asked no more.
"""

import marshal
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from paddock.tokens.opaque import Piece
from paddock.types import JsonObject

_MAX_SHAPES = 512
_MAX_BYTES = 8 * 2**20
_MAX_KEY_BYTES = 2**20
_PATIENCE_SHAPES = 64
_MARSHAL_VERSION = 2
"""Later ones write what is the same object otherwise than what is merely equal."""
_HOLE = b""
"""In a key: no JSON."""


class Frame(NamedTuple):
    """Of a shape."""

    end_text: str
    """As `Ending` says."""
    pieces: tuple[Piece, ...]
    """Of what follows it; a number is that of a shape's string."""

    def filled(self, strings: Sequence[str]) -> str:
        return "".join([piece if isinstance(piece, str) else strings[piece] for piece in self.pieces])


class Shape(NamedTuple):
    """Of a request."""

    key: bytes
    strings: list[str]


class Kept(NamedTuple):
    """What is known of a shape."""

    frame: Frame | None
    """None: it has none."""


class Frames:
    """Of one template."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()
        self._lock = Lock()
        self._made = self._refused = 0
        self.size_bytes = 0
        """Of keys and texts."""

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Kept]:
        return iter(list(self._kept.values()))

    @property
    def given_up(self) -> bool:
        return not self._made and self._refused >= _PATIENCE_SHAPES

    def find(self, key: bytes) -> Kept | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def keep(self, key: bytes, frame: Frame | None) -> None:
        with self._lock:
            if key in self._kept:
                return
            self._made += frame is not None
            self._refused += frame is None
            self._kept[key] = Kept(frame)
            self.size_bytes += _size(key, frame)
            while len(self._kept) > _MAX_SHAPES or self.size_bytes > _MAX_BYTES:
                old, kept = self._kept.popitem(last=False)
                self.size_bytes -= _size(old, kept.frame)


def _size(key: bytes, frame: Frame | None) -> int:
    return sys.getsizeof(key) + sum(map(sys.getsizeof, frame.pieces if frame else ()))


def shape_of(
    told: Sequence[JsonObject], tools: Sequence[JsonObject] | None, arguments: Mapping[str, Any]
) -> Shape | None:
    """`told`: an answer of dummies and the messages after it, as the template gets them."""
    for message in told[1:]:
        if message["role"] == "assistant":
            return None
    strings: list[str] = []

    def cut(text: str) -> bytes:
        strings.append(text)
        return _HOLE

    seen: Any = (hollowed(told, cut), tools, {**arguments})
    try:
        key = marshal.dumps(seen, _MARSHAL_VERSION)
    except ValueError:  # what Python's own code may have put there
        return None
    return Shape(key, strings) if len(key) <= _MAX_KEY_BYTES else None


def hollowed(told: Iterable[JsonObject], cut: Callable[[str], Any]) -> list[JsonObject]:
    """Messages as a template gets them, with what `cut` makes of their strings, in order."""

    def hole(value: Any) -> Any:
        return cut(value) if type(value) is str and value else value

    found: list[JsonObject] = []
    for message in told:
        changed = dict(message)
        if message["role"] == "assistant":
            if "tool_calls" in message:
                changed["tool_calls"] = [{**call, "id": hole(call["id"])} for call in message["tool_calls"]]
        else:
            content = message["content"]
            parts = isinstance(content, list)
            changed["content"] = [{**part, "text": hole(part["text"])} for part in content] if parts else hole(content)
            if "tool_call_id" in message:
                changed["tool_call_id"] = hole(message["tool_call_id"])
        found.append(changed)
    return found
