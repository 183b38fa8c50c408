"""Blobs by digest, below `<home>/blobs/sha256`: fetched once, resumed within, shared by all pulls of this machine.

Layout  `<hex>` a whole blob whose digest was checked; `<hex>.partial` the beginning of one, under flock while it grows:
        who waits for it finds it whole, or goes on where it ends. Its bytes are never fetched twice.
Whole   size and sha256 as the manifest says, then renamed: a name without suffix is a checked blob.
Use     `using` is held shared by whoever needs blobs, alone by `prune`.
Errors  ImageInvalid when a registry sends other bytes than the digest's; else as the registry's.
"""

import asyncio
import fcntl
import hashlib
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import httpx

from paddock.sandbox.failures import ImageInvalid
from paddock.sandbox.images.registry.client import Registry
from paddock.sandbox.images.registry.retry import RetryableError, persist

PARTIAL = ".partial"
PROGRESS_BYTES = 1 << 20
"""Bytes that an attempt must bring to count as progress."""
_CHUNK = 1 << 18
_POLL_S = 0.1


class Descriptor(NamedTuple):
    """A blob as a manifest names it."""

    digest: str
    size: int
    media_type: str


class BlobCache:
    """The blobs of one store's home."""

    def __init__(self, home: Path, *, connections: int) -> None:
        self.folder = home / "blobs" / "sha256"
        self._slots = asyncio.Semaphore(connections)

    def path(self, digest: str) -> Path:
        """Where a blob is, or would be."""
        return self.folder / _hex(digest)

    def present_bytes(self, digest: str) -> int:
        """Bytes of a blob that are here."""
        for path in (self.path(digest), self.path(digest).with_suffix(PARTIAL)):
            if path.exists():
                return path.stat().st_size
        return 0

    @contextmanager
    def using(self, *, alone: bool = False) -> Iterator[bool]:
        """Keep `prune` out; `alone` keeps everyone out, and gets False when someone is in."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.folder.parent / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    async def fetch(
        self, registry: Registry, repository: str, blob: Descriptor, *, advance: Callable[[int], None]
    ) -> Path:
        """Fetch a whole blob; `advance` gets the numbers of bytes that this call fetched."""
        target = self.path(blob.digest)
        if target.exists():
            return target
        async with self._grow(target) as partial:
            if partial is None:
                return target

            async def attempt() -> None:
                await _go_on(registry, repository, blob, partial, advance)

            async with self._slots:
                await persist(attempt, registry.options.backoff, registry.name_of(repository, f"blobs/{blob.digest}"))
            partial.flush()
            os.fsync(partial.fileno())
            target.with_suffix(PARTIAL).rename(target)
        return target

    @asynccontextmanager
    async def _grow(self, target: Path) -> AsyncIterator[BinaryIO | None]:
        """The partial of a blob, ours alone; None: someone else has made it whole meanwhile."""
        path = target.with_suffix(PARTIAL)
        while True:
            with _open(path) as partial:
                while not _try_lock(partial):
                    await asyncio.sleep(_POLL_S)
                if target.exists():  # noqa: ASYNC240 - one look, between two locks
                    # Ours, opened after the other's was renamed.
                    if _same(path, partial):
                        path.unlink()
                    yield None
                    return
                # A prune may have removed it before it was locked.
                if _same(path, partial):
                    yield partial
                    return


async def _go_on(
    registry: Registry, repository: str, blob: Descriptor, partial: BinaryIO, advance: Callable[[int], None]
) -> None:
    """One attempt to make a partial whole; what it brought stays, unless its digest is wrong."""
    hasher, start = await asyncio.to_thread(_hash, partial, blob.size)
    n_bytes = start
    try:
        if start < blob.size:
            headers = {"range": f"bytes={start}-"} if start else {}
            # Encodings of the transport would change what is counted.
            headers["accept-encoding"] = "identity"
            async with registry.stream(repository, f"blobs/{blob.digest}", headers) as response:
                if start and not _continues(response, start):
                    hasher, n_bytes = hashlib.sha256(), 0
                    partial.truncate(0)
                    partial.seek(0)
                if response.status_code == 416:
                    raise RetryableError(f"{registry.host}/{repository}: {blob.digest} can't be resumed")
                # As they come: chunks of a set size would lose what a cut leaves of the last.
                async for chunk in response.aiter_raw():
                    n_bytes += len(chunk)
                    if n_bytes > blob.size:
                        break
                    partial.write(chunk)
                    hasher.update(chunk)
                    advance(len(chunk))
    finally:
        partial.flush()
    if n_bytes < blob.size:
        progress = n_bytes - start >= PROGRESS_BYTES
        raise RetryableError(
            f"{registry.host}/{repository}: {blob.digest} ended after {n_bytes} bytes", progress=progress
        )
    if n_bytes == blob.size and f"sha256:{hasher.hexdigest()}" == blob.digest:
        return
    partial.truncate(0)
    if start:
        # What an earlier run left may be what is wrong.
        raise RetryableError(f"{registry.host}/{repository}: {blob.digest} was resumed and is not what its digest says")
    raise ImageInvalid(
        f"{registry.host}/{repository} sent other bytes than {blob.digest}; what it sent was thrown away",
        kind="digest_mismatch",
    )


def _continues(response: httpx.Response, start: int) -> bool:
    """Whether an answer begins where we stopped."""
    content_range = response.headers.get("content-range", "").replace(" ", "").lower()
    return response.status_code == 206 and bool(content_range.startswith(f"bytes{start}-"))


def _hash(partial: BinaryIO, max_bytes: int) -> tuple["hashlib._Hash", int]:
    """The hash of what is there, and how much; one that is too long is begun anew."""
    hasher = hashlib.sha256()
    partial.seek(0, os.SEEK_END)
    size = partial.tell()
    if size > max_bytes:
        partial.truncate(0)
        size = 0
    partial.seek(0)
    while chunk := partial.read(_CHUNK):
        hasher.update(chunk)
    return hasher, size


def _open(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600), "r+b")


def _try_lock(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _same(path: Path, file: BinaryIO) -> bool:
    """Whether a path still leads to an open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _hex(digest: str) -> str:
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise ImageInvalid(f"{digest!r} is no digest; it reads sha256:<64 hex digits>", kind="digest")
    return digest.removeprefix("sha256:")
