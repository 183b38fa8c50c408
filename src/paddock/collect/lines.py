"""The lines of a run's journals, each a JSON object that ends in its format and in a digest of itself; their writer.

    {"reward":1.0, ... ,"_paddock_format":2,"_paddock_crc32":"0a1b2c3d"}

Digest  CRC-32 of every byte that stands before `,"_paddock_crc32"`: any byte that changes, on either side, is found.
Older   lines of format 1 have neither key; they stand before all others, in folders that were begun in format 1.
Writer  appends from one thread, so that the disk never blocks the event loop. `put` returns when its parts are in the
        files, and on the disk where the file is a durable one: then, and not before, a rollout counts as finished.
        Parts go in the order in which they were put; one sync serves all parts that waited together. A part is written
        whole or, when the disk refuses, cut off again.
Errors  `Fault`: what is wrong with one line, and whether it may be set aside. An OSError of the disk goes to every
        waiting `put`, and to all later ones.
"""

import asyncio
import os
import queue
import re
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from paddock.collect.folder import DAMAGED, RUN
from paddock.errors import ConfigError
from paddock.types import Record
from paddock.types.formats import DIGEST_KEY, FORMAT, FORMAT_KEY, later_format_text
from paddock.whole_file import sync_folder

_FORMAT_PART = f',"{FORMAT_KEY}":{FORMAT}'.encode()
_DIGEST_PART = f',"{DIGEST_KEY}":"%08x"}}\n'.encode()
_DIGEST_BYTES = len(_DIGEST_PART % 0)
_TAIL = re.compile(rf',"{FORMAT_KEY}":(\d+),"{DIGEST_KEY}":"([0-9a-f]{{8}})"}}\n\Z'.encode())
_TAIL_BYTES = 80
"""More than the two keys at a line's end have."""
GATHER_S = 0.005
"""How long parts are gathered for one hand-over to the thread: each one costs the event loop a switch of threads, and
each sync the disk a flush."""
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
    return seal(record.model_dump_json(exclude_defaults=True).encode() + b"\n")


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


class Part(NamedTuple):
    """Bytes for the end of one file."""

    file: str
    data: bytes


class _AppendJob(NamedTuple):
    """What one `put` or `post` appends."""

    parts: Sequence[Part]
    done: "asyncio.Future[None] | None"
    """None: nobody waits."""


class _JournalFile:
    """One open file; `durable`: synced to the disk after each append."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.size = os.fstat(self.fd).st_size
        self.durable = durable

    def append(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self.fd, view) :]
            if self.durable:
                os.fsync(self.fd)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self.fd, self.size)
            raise
        self.size += len(data)


class JournalWriter:
    """The files of one run. Used from one event loop; owns its thread and its descriptors until `close`."""

    def __init__(self, paths: Mapping[str, Path], *, durable: frozenset[str]) -> None:
        self._files = {name: _JournalFile(path, durable=name in durable) for name, path in paths.items()}
        for folder in {path.parent for path in paths.values()}:
            sync_folder(folder)
        self._ends = {name: file.size for name, file in self._files.items()}
        self._gathered: list[_AppendJob] = []
        self._batches: queue.SimpleQueue[Sequence[_AppendJob] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._error: OSError | None = None
        # A daemon: a process that dies without `close` must not wait for it; what it had not written was not finished.
        self._thread = threading.Thread(target=self._work, name="paddock-writer", daemon=True)
        self._thread.start()

    def end_of(self, file: str) -> int:
        """Where the next part of that file will begin."""
        return self._ends[file]

    def put(self, *parts: Part) -> "asyncio.Future[None]":
        """Append all parts; the future is done when they are written. Cancelling the wait does not take them back."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._add(parts, done)
        return done

    def post(self, *parts: Part) -> None:
        """Append all parts without waiting for them; if the disk refuses, the next `put` raises."""
        self._add(parts, None)

    async def close(self) -> None:
        """Write what is left, then close the files."""
        self._hand_over()
        self._batches.put(None)
        await asyncio.to_thread(self._thread.join)
        for file in self._files.values():
            os.close(file.fd)

    def _add(self, parts: Sequence[Part], done: "asyncio.Future[None] | None") -> None:
        for part in parts:
            self._ends[part.file] += len(part.data)
        self._gathered.append(_AppendJob(parts, done))
        if len(self._gathered) == 1:
            self._loop.call_later(GATHER_S, self._hand_over)

    def _hand_over(self) -> None:
        if self._gathered:
            self._batches.put(self._gathered)
            self._gathered = []

    def _work(self) -> None:
        while (batch := self._batches.get()) is not None:
            error = self._error or self._write(batch)
            self._error = error
            self._loop.call_soon_threadsafe(_settle, batch, error)

    def _write(self, batch: Sequence[_AppendJob]) -> OSError | None:
        by_file: dict[str, list[bytes]] = {}
        for job in batch:
            for part in job.parts:
                by_file.setdefault(part.file, []).append(part.data)
        # Derived files come last: a line of theirs never speaks of something that is not on the disk.
        for name in sorted(by_file, key=lambda name: not self._files[name].durable):
            try:
                self._files[name].append(b"".join(by_file[name]))
            except OSError as error:
                return error
        return None


def _settle(batch: Sequence[_AppendJob], error: OSError | None) -> None:
    for job in batch:
        if job.done is None or job.done.done():
            continue
        if error is None:
            job.done.set_result(None)
        else:
            job.done.set_exception(error)
