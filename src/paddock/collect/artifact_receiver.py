"""Files that a worker on another machine sends of its attempts (`artifact_sender`), as its driver writes them.

Law     the files of an attempt come to their place all at once, when its event was heard; until then they are in a
        folder beside it. What a lost worker sent in part goes. A kill of the driver may leave such folders, which the
        next command over the run removes.
Errors  none: what the disk refuses, or an agent's name that is no path below its root, is logged and costs no rollout.
"""

import asyncio
import logging
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from paddock.collect.artifact_sender import NOT_SENT
from paddock.collect.jobs import WorkerMessage
from paddock.whole_file import sync_folder

INCOMING = ".incoming"
_PARTS = 3
"""Least that a file's name has: run, attempt, file."""
_log = logging.getLogger("paddock.collect")


class ArtifactReceiver:
    """Takes what one worker sends. `roots`: of each agent whose files it takes."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self._roots = roots
        self._incoming: dict[int, dict[Path, _IncomingFolder]] = {}
        self._lock = threading.Lock()
        self._failed: set[int] = set()
        """Jobs of whose attempt in flight nothing more is taken."""
        self._closed = False

    async def take(self, message: WorkerMessage) -> None:
        """Take a piece of a file."""
        await self._attend(message.head["job"], partial(self._write, message))

    async def keep(self, number: int) -> None:
        """An attempt of that job has ended: what came of it is all there is."""
        if number in self._incoming or number in self._failed:
            await self._attend(number, partial(self._keep, number))
            self._failed.discard(number)

    async def drop(self, number: int) -> None:
        """An attempt of that job was cancelled: nothing came of it."""
        if number in self._incoming or number in self._failed:
            await self._attend(number, partial(self._discard, number))
            self._failed.discard(number)

    async def close(self) -> None:
        """The worker is gone: remove what has come in part."""
        await asyncio.to_thread(self._close)

    async def _attend(self, number: int, act: Callable[[], None]) -> None:
        await asyncio.to_thread(self._try, number, act)

    def _try(self, number: int, act: Callable[[], None]) -> None:
        with self._lock:
            if self._closed or number in self._failed:
                return
            try:
                act()
            except (OSError, ValueError) as error:
                _log.warning("files of an attempt are not kept: %s", error)
                self._failed.add(number)
                self._discard(number)

    def _write(self, message: WorkerMessage) -> None:
        file = message.head["file"]
        name = PurePosixPath(file["name"])
        if file["agent"] not in self._roots or name.is_absolute() or ".." in name.parts or len(name.parts) < _PARTS:
            raise ValueError(f"no place for {file['name']!r} of {file['agent']!r}")
        target = self._roots[file["agent"]].joinpath(*name.parts[:2])
        folders = self._incoming.setdefault(message.head["job"], {})
        if target not in folders:
            folders[target] = _IncomingFolder(target)
        folders[target].write(PurePosixPath(*name.parts[2:]), message.body, last=file["last"])

    def _keep(self, number: int) -> None:
        for folder in self._incoming[number].values():
            folder.keep()
        del self._incoming[number]

    def _discard(self, number: int) -> None:
        for folder in self._incoming.pop(number, {}).values():
            folder.discard()

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            for number in list(self._incoming):
                self._discard(number)


class _IncomingFolder:
    """The files of one attempt until they take their place."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._folder = target.with_name(f".{target.name}{INCOMING}")
        self._path = self._folder
        self._file: BinaryIO | None = None
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)

    def write(self, name: PurePosixPath, data: bytes, *, last: bool) -> None:
        path = self._folder / name
        if self._file is None or path != self._path:
            self._drop_partial()
            path.parent.mkdir(parents=True, exist_ok=True)
            self._path, self._file = path, path.open("wb")
        self._file.write(data)
        if last:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def keep(self) -> None:
        self._drop_partial()
        if (self._folder / NOT_SENT).exists():
            _log.warning("%s: not all files were sent: see %s", self._target, NOT_SENT)
        if self._target.exists():
            shutil.rmtree(self._target)  # of an attempt that a resumed run makes again
        self._folder.rename(self._target)
        sync_folder(self._target.parent)

    def discard(self) -> None:
        with suppress(OSError):
            self._drop_partial()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _drop_partial(self) -> None:
        """Remove a file whose end did not come."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
            self._path.unlink()


def remove_incoming(roots: Mapping[str, Path], run_id: str) -> None:
    """Remove what a killed command left of a run."""
    for root in set(roots.values()):
        for folder in (root / run_id).glob(f".*{INCOMING}"):
            shutil.rmtree(folder, ignore_errors=True)
