"""Folders in which layers are made before the store has them, one per build, and locks by name.

Stage   `building/<id>/`: `fs` becomes the layer, `work` is overlayfs's; removed at the end, whatever the end. What a
        killed builder left is removed by the next one: a stage's lock file is held by the process that uses it.
Locks   `locks/<quoted name>` by flock: builders of one thing wait for each other, in one process or in several, and
        find it made.
"""

import asyncio
import fcntl
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from paddock.sandbox.images.disk_use import disk_bytes
from paddock.sandbox.images.store import ImageStore
from paddock.sandbox.layers import remove_tree

_POLL_S = 0.1


class BuildStage(NamedTuple):
    """Folders of one build."""

    root: Path
    """Also for downloads; readable by the payload's uid."""
    tree: Path
    work: Path

    def folder(self, name: str) -> Path:
        path = self.root / name
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
        return path


class StageSweep(NamedTuple):
    """Stages that were removed."""

    n: int
    bytes: int
    """What they took on the disk."""


@contextmanager
def new_stage(store: ImageStore) -> Iterator[BuildStage]:
    """A new stage, removed at the end of the block."""
    sweep(store)
    building = _folder(store, "building")
    lock, descriptor = _own_lock(building)
    root = lock.with_suffix("")
    try:
        stage = BuildStage(root, root / "fs", root / "work")
        for path in stage:
            path.mkdir()
            path.chmod(0o755)
        store.own([stage.tree, stage.work])
        yield stage
    finally:
        remove_tree(root)
        lock.unlink(missing_ok=True)
        os.close(descriptor)


@asynccontextmanager
async def name_lock(store: ImageStore, name: str) -> AsyncIterator[None]:
    """Hold the lock of a name."""
    path = _folder(store, "locks") / quote(name, safe="")
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        while not _try_lock(descriptor):
            await asyncio.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def cache(store: ImageStore, name: str) -> Path:
    """A folder of downloads that builds share; every file in it was checked against a digest."""
    return _folder(store, "downloads", name)


def _own_lock(building: Path) -> tuple[Path, int]:
    while True:
        path = building / f"{uuid.uuid4().hex}.lock"
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        # A sweeper may have taken it for a dead one's before it was locked.
        if _try_lock(descriptor) and os.fstat(descriptor).st_nlink:
            return path, descriptor
        os.close(descriptor)


def sweep(store: ImageStore) -> StageSweep:
    """Remove the stages of dead builders."""
    building, n, freed = _folder(store, "building"), 0, 0
    for lock in building.glob("*.lock"):
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            if _try_lock(descriptor):
                root = lock.with_suffix("")
                freed += disk_bytes([root])
                remove_tree(root)
                lock.unlink(missing_ok=True)
                n += 1
        finally:
            os.close(descriptor)
    return StageSweep(n, freed)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _folder(store: ImageStore, *names: str) -> Path:
    path = store.home
    for name in ("", *names):
        path = path / name
        if not path.exists():
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o711)
    return path
