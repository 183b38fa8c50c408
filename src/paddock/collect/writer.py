"""The journal writer appends lines to a run's files from one thread, so that the disk never blocks the event loop.

Law     `put` returns when its parts are in the files, and on the disk where the file is a durable one: then, and not
        before, a rollout counts as finished. Parts go in the order in which they were put; one sync serves all parts
        that waited together. A part is written whole or, when the disk refuses, cut off again.
Errors  an OSError of the disk goes to every waiting `put`, and to all later ones.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from paddock.whole_file import sync_folder

GATHER_S = 0.005
"""How long parts are gathered for one hand-over to the thread: each one costs the event loop a switch of threads, and
each sync the disk a flush."""


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
