"""Which experts of a mixture each token went through, as an engine gives them: for router replay in training.

Shapes  a row per token, [layers, k] ids of experts; layers and k are the engine's own count.
Place   `start` is the position of the first row's token in its sequence. A pass over a token has its row when the token
        after it is sampled: so the last token of a sequence has none until the next call goes over it. A turn has the
        rows from its parent's last token on; joined along a path they are one for each token of it but the last.
Which   a row is of the pass that sampled the token after it, under the weights of then. An engine that goes over tokens
        again (a cache that was cleared, an answer that was retracted) gives those of its last pass before the answer's
        end, or before it aborted the answer.
Text    `nrlre1:<dtype>:<rows>x<layers>x<k>:<base64>`, little-endian, row by row: NeMo-RL's
        (`nemo_rl/utils/routed_experts_codec.py`); written as int8 or int16, where all ids fit, else int32. It has no
        `start`: where it stands says which.
Size    bytes per token: layers x k x 1, 2 or 4; a third more in base64.
Errors  ValueError.
"""

import base64
import binascii
import math
import sys
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

MAGIC = "nrlre1"
WIDTHS = {"int8": 1, "int16": 2, "int32": 4}
_DTYPES = {width: dtype for dtype, width in WIDTHS.items()}
_CODES = {1: "b", 2: "h", 4: "i"}


class ExpertsShape(NamedTuple):
    """Sizes of an array."""

    rows: int
    layers: int
    k: int


class RoutedExperts(NamedTuple):
    """Rows of the tokens from position `start` on."""

    start: int
    layers: int
    k: int
    width: int
    """Bytes per id: 1, 2 or 4; signed, little-endian."""
    data: bytes

    @property
    def rows(self) -> int:
        return len(self.data) // self._row_bytes

    @property
    def end(self) -> int:
        """Position after the last row's token."""
        return self.start + self.rows

    @property
    def _row_bytes(self) -> int:
        return self.layers * self.k * self.width

    @classmethod
    def of(cls, given: Any, start: int = 0) -> Self:
        """Of an array of numpy's, or another with a buffer, of shape [rows, layers, k], of whole numbers."""
        view = memoryview(given)
        if view.shape is None or view.ndim != 3 or view.format not in tuple("bBhHiIlLqQ"):
            raise ValueError(f"routed experts: shape {view.shape} of {view.format}, not [rows, layers, k] of integers")
        shape = ExpertsShape(*view.shape)
        if not shape.layers or not shape.k:
            raise ValueError(f"routed experts: shape {view.shape}: no expert of a token")
        ids = array(view.format, view.tobytes())
        return cls._packed(start, shape, ids)

    @classmethod
    def of_int32(cls, data: bytes, start: int, *, rows: int, k: int) -> Self:
        """Of bytes without a shape."""
        shape = ExpertsShape(rows, len(data) // max(1, 4 * rows * k), k)
        if rows < 0 or (rows and not shape.layers) or math.prod(shape) * 4 != len(data):
            raise ValueError(f"routed experts: {len(data)} bytes for {rows} tokens of {k} experts a layer")
        return cls._packed(start, shape, _ids(4, data))

    @classmethod
    def from_text(cls, text: str, start: int = 0) -> Self:
        dtype, shape, data = _split(text)
        try:
            ids = base64.b64decode(data, validate=True)
        except (ValueError, binascii.Error):
            raise ValueError("routed experts: their base64 can't be read") from None
        if len(ids) != math.prod(shape) * WIDTHS[dtype]:
            raise ValueError(f"routed experts: {len(ids)} bytes for shape {tuple(shape)} of {dtype}")
        return cls(start, shape.layers, shape.k, WIDTHS[dtype], ids)

    def to_text(self) -> str:
        data = base64.b64encode(self.data).decode("ascii")
        return f"{MAGIC}:{_DTYPES[self.width]}:{self.rows}x{self.layers}x{self.k}:{data}"

    def part(self, start: int, end: int) -> Self:
        """The rows of the tokens from `start` to before `end`."""
        if not self.start <= start <= end <= self.end:
            raise ValueError(f"routed experts: of tokens {self.start} to {self.end}, not of {start} to {end}")
        size = self._row_bytes
        return self._replace(start=start, data=self.data[(start - self.start) * size : (end - self.start) * size])

    def padded(self) -> Self:
        """With one row more, of zeros: for who wants one for the last token, too."""
        return self._replace(data=self.data + bytes(self._row_bytes))

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """One after the other, in one width; each begins where the one before it ends."""
        first = parts[0]
        end = first.start
        for part in parts:
            if (part.layers, part.k) != (first.layers, first.k) or part.start != end:
                widths = f"{part.layers}x{part.k} behind {first.layers}x{first.k}"
                raise ValueError(f"routed experts: {widths}, from token {part.start} on behind those up to {end}")
            end = part.end
        width = max(part.width for part in parts)
        return first._replace(width=width, data=b"".join(part._widened(width) for part in parts))

    @classmethod
    def _packed(cls, start: int, shape: ExpertsShape, ids: "array[int]") -> Self:
        high, low = (max(ids), min(ids)) if ids else (0, 0)
        most = max(high, -1 - low)
        width = next((width for width in WIDTHS.values() if most < 1 << 8 * width - 1), 0)
        if not width:
            raise ValueError(f"routed experts: an id {most}")
        return cls(start, shape.layers, shape.k, width, _data(width, ids))

    def _widened(self, width: int) -> bytes:
        return self.data if width == self.width else _data(width, _ids(self.width, self.data))


def text_shape(text: str) -> ExpertsShape:
    """The shape that a text says, whatever its data."""
    return _split(text)[1]


def _split(text: str) -> tuple[str, ExpertsShape, str]:
    parts = text.split(":", 3)
    if len(parts) != 4 or parts[0] != MAGIC:
        raise ValueError(f"routed experts: no text `{MAGIC}:<dtype>:<rows>x<layers>x<k>:<base64>`")
    _, dtype, sizes, data = parts
    if dtype not in WIDTHS:
        raise ValueError(f"routed experts: dtype {dtype[:20]!r}, not one of {', '.join(WIDTHS)}")
    try:
        shape = ExpertsShape(*map(int, sizes.split("x")))
    except (TypeError, ValueError):
        raise ValueError(f"routed experts: shape {sizes[:40]!r}, not [rows, layers, k]") from None
    if shape.rows < 0 or shape.layers < 1 or shape.k < 1:
        raise ValueError(f"routed experts: shape {tuple(shape)}")
    return dtype, shape, data


def _ids(width: int, data: bytes) -> "array[int]":
    ids = array(_CODES[width], data)
    if sys.byteorder == "big":
        ids.byteswap()
    return ids


def _data(width: int, ids: "array[int]") -> bytes:
    packed = array(_CODES[width], ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
