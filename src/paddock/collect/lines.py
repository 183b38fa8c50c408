"""The lines of a run's journals: each a JSON object that ends in its format and in a digest of itself.

    {"reward":1.0, ... ,"_paddock_format":2,"_paddock_crc32":"0a1b2c3d"}

Digest  CRC-32 of every byte that stands before `,"_paddock_crc32"`: any byte that changes, on either side, is found.
Older   lines of format 1 have neither key; they stand before all others, in folders that were begun in format 1.
Errors  `Fault`: what is wrong with one line, and whether it may be set aside.
"""

import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import orjson

from paddock.collect.folder import DAMAGED, RUN
from paddock.errors import ConfigError
from paddock.types import Record
from paddock.types.formats import DIGEST_KEY, FORMAT, FORMAT_KEY, later_format_text

_FORMAT_PART = f',"{FORMAT_KEY}":{FORMAT}'.encode()
_DIGEST_PART = f',"{DIGEST_KEY}":"%08x"}}\n'.encode()
_DIGEST_BYTES = len(_DIGEST_PART % 0)
_TAIL = re.compile(rf',"{FORMAT_KEY}":(\d+),"{DIGEST_KEY}":"([0-9a-f]{{8}})"}}\n\Z'.encode())
_TAIL_BYTES = 80
"""More than the two keys at a line's end have."""
FaultKind = Literal["damaged", "doubled", "foreign"]
"""`damaged`: not what was written; `doubled`: its rollout has an earlier line; `foreign`: undamaged, but written by
another version or program: it is never set aside."""


class Fault(Exception):  # noqa: N818 - it is kept and shown as often as it is raised
    """What is wrong with a line."""

    def __init__(self, kind: FaultKind, why: str) -> None:
        super().__init__(why)
        self.kind = kind
        self.why = why

    def error(self, path: Path, number: int) -> ConfigError:
        """The error of a command that can't go on for this fault; `number`: the line's, from 1."""
        way_out = self._way_out(path.parent)
        return ConfigError(f"{path}:{number}: {self.why}{way_out}", kind="journal_broken")

    def _way_out(self, folder: Path) -> str:
        if self.kind == "foreign":
            return "; nothing was changed"
        if not (folder / RUN).exists():
            return ""
        return (
            f"; `paddock runs repair {folder}` mends what can be mended and sets the rest aside in {DAMAGED}; "
            "--resume then runs what is missing"
        )


class LineSpan(NamedTuple):
    """Where a line stands in its file, in bytes from its start."""

    number: int
    """From 1."""
    start: int
    end: int
    """After its newline."""


class StoredLine(NamedTuple):
    """A line of a journal as it stands on the disk."""

    span: LineSpan
    data: bytes
    """The line with its newline."""
    crc32: int
    """Checksum of the bytes before its digest; of the whole line where it has none."""
    fault: Fault | None
    """None: it matches its digest, or has none to match."""


def seal(line: bytes) -> bytes:
    """A JSON object with its newline, given the format and digest with which it is stored."""
    body = line[:-2] + _FORMAT_PART
    return body + _DIGEST_PART % zlib.crc32(body)


def to_line(record: Record) -> bytes:
    """The line of a result or a failed attempt."""
    return seal(orjson.dumps(record.model_dump(exclude_defaults=True)) + b"\n")


def is_sealed(line: bytes) -> bool:
    return _tail(line) is not None


def digest_of(line: bytes) -> int:
    """The digest that a line made by `seal` ends in; it is not compared with the line."""
    return int(line[-11:-3], 16)


def check(line: bytes, *, older: bool) -> int:
    """The CRC-32 of a line. Raises Fault where its digest differs, or is missing. `older`: it may be missing."""
    tail = _tail(line)
    if tail is None:
        if not line.strip(b"\0 \t\r\n"):
            raise Fault("damaged", "zero bytes in place of a line" if b"\0" in line else "an empty line")
        if not older:
            raise Fault("damaged", "damaged: it has no digest, as every line of this folder has")
        return zlib.crc32(line)
    crc32 = zlib.crc32(memoryview(line)[:-_DIGEST_BYTES])
    if crc32 != int(tail[2], 16):
        raise Fault("damaged", "damaged: it does not match its digest")
    if int(tail[1]) > FORMAT:
        raise Fault("foreign", later_format_text(int(tail[1])))
    return crc32


def stored_lines(path: Path, *, older: bool) -> Iterator[StoredLine]:
    """Every line that ends in a newline. `older`: lines before the first digest may be without one."""
    if not path.exists():
        return
    start = 0
    with path.open("rb", buffering=1 << 20) as file:
        for number, data in enumerate(file, 1):
            if not data.endswith(b"\n"):
                return
            span = LineSpan(number, start, start + len(data))
            fault = None
            try:
                crc32 = check(data, older=older)
            except Fault as error:
                fault, crc32 = error, 0
            yield StoredLine(span, data, crc32, fault)
            start = span.end
            older = older and not is_sealed(data)


def _tail(line: bytes) -> re.Match[bytes] | None:
    return _TAIL.search(line, max(0, len(line) - _TAIL_BYTES))
