"""One layer applied to a tree: a tar, plain, gzip or zstd, with the removals that Docker and OCI write as names.

Removals `.wh.NAME` removes what lower layers have at NAME, `.wh..wh..opq` all that they have in its folder, wherever in
         the layer they stand; the layer's own entries stay. Other `.wh..wh.*` names are bookkeeping and are left
         out. In a tree that is one layer by itself they become overlayfs's own marks, as the store has them
         (`keep_removals`).
Checked  the layer's bytes, unpacked, have the sha256 that the image's config says.
Errors   ImageInvalid for a layer that is damaged, unsafe, too large (see `limits`) or of an unknown kind.
"""

import gzip
import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO, cast

from paddock.sandbox.failures import ImageInvalid
from paddock.sandbox.images.unpack.headers import BoundedTar, members
from paddock.sandbox.images.unpack.limits import Budget, shorten
from paddock.sandbox.images.unpack.tree import UnpackTree, parts_of

try:
    import zstandard
except ImportError:  # an extra: few images need it
    zstandard = cast(Any, None)

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
OPAQUE_ATTRIBUTE = "user.overlay.opaque"
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_CHUNK = 1 << 20
_DAMAGE: tuple[type[Exception], ...] = (
    *(tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, OverflowError, RecursionError),
    *((zstandard.ZstdError,) if zstandard else ()),
)


def apply_layer(
    tree: UnpackTree, layer: BinaryIO, *, diff_id: str | None, what: str, keep_removals: bool = False
) -> None:
    """Apply a layer's blob; `diff_id` is the digest of the unpacked tar, None where nobody said it. `keep_removals`:
    the tree is that layer alone."""
    try:
        stream = _LayerTarReader(decompressed(layer, what), tree.budget, what)
        writer = _LayerWriter(tree, keep_removals=keep_removals)
        for tar, member in _read(stream):
            writer.apply(tar, member)
    except _DAMAGE as error:
        raise ImageInvalid(f"{what} is damaged: {error}", kind="image_damaged") from None
    if diff_id is not None and stream.digest != diff_id:
        raise ImageInvalid(f"{what} unpacks to other bytes than {diff_id}", kind="digest_mismatch")


def measure_layer(budget: Budget, layer: BinaryIO, what: str) -> None:
    """Add up a layer that another program unpacks."""
    try:
        for _tar, member in _read(_LayerTarReader(decompressed(layer, what), budget, what)):
            budget.entry(member.name)
            if member.isfile():
                budget.wrote(member.size, shorten(member.name))
    except _DAMAGE as error:
        raise ImageInvalid(f"{what} is damaged: {error}", kind="image_damaged") from None


def _read(stream: "_LayerTarReader") -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """A layer's members in order, and its bytes to the last."""
    with tarfile.open(fileobj=stream, mode="r|", errorlevel=2, encoding="utf-8", errors="surrogateescape") as tar:
        for member in members(tar, stream):
            # What tarfile remembers of each member is not needed, and there may be a million.
            tar.members = []  # type: ignore[attr-defined]
            yield tar, member
    while stream.read(_CHUNK):
        pass


def decompressed(blob: BinaryIO, what: str) -> BinaryIO:
    """A blob's tar, by how the blob begins."""
    start = blob.read(4)
    rest = cast(BinaryIO, io.BufferedReader(_PrefixedStream(start, blob), _CHUNK))
    if start.startswith(_GZIP):
        return cast(BinaryIO, gzip.GzipFile(fileobj=rest, mode="rb"))
    if start == _ZSTD:
        if zstandard is None:
            raise ImageInvalid(
                f"{what} is compressed with zstd, which needs the package zstandard: pip install 'paddock[zstd]'",
                kind="zstandard_missing",
            )
        return cast(BinaryIO, zstandard.ZstdDecompressor().stream_reader(rest, read_across_frames=True))
    return rest


class _LayerWriter:
    """The state of one application."""

    def __init__(self, tree: UnpackTree, *, keep_removals: bool) -> None:
        self._tree = tree
        self._keep_removals = keep_removals
        self._own: set[str] = set()
        """Real paths that this layer has written, with the folders above them."""

    def apply(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self._tree.budget.entry(member.name)
        *above, last = parts_of(member.name)
        if last.startswith(WHITEOUT):
            self._remove(above, last)
            return
        path = self._write(tar, member)
        while path is not None and path not in self._own:
            self._own.add(path)
            path = os.path.dirname(path) if path != self._tree.root else None

    def _write(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> str | None:
        tree, name, mode = self._tree, member.name, member.mode
        if member.isdir():
            return tree.folder(name, mode)
        if parts_of(name) == [""]:
            raise ImageInvalid(f"{shorten(name)} is the root and no folder", kind="image_unsafe")
        if member.issym():
            return tree.symlink(name, member.linkname)
        if member.islnk():
            return tree.hardlink(name, member.linkname)
        if member.isfifo():
            return tree.fifo(name, mode)
        if not member.isfile():
            tree.left_out += 1
            return None
        content = tar.extractfile(member)
        assert content is not None
        return tree.file(name, mode, float(member.mtime), cast(BinaryIO, content), member.size)

    def _remove(self, above: list[str], last: str) -> None:
        if last == OPAQUE:
            folder = self._tree.path_of("/".join([*above, "x"])).removesuffix("/x")
            if self._keep_removals:
                os.setxattr(folder, OPAQUE_ATTRIBUTE, b"y", follow_symlinks=False)
            else:
                self._clear(folder)
            return
        if last.startswith(WHITEOUT * 2):
            return
        hidden = last.removeprefix(WHITEOUT)
        if hidden in ("", ".", ".."):
            raise ImageInvalid(f"{'/'.join([*above, last])!r} removes no name", kind="image_unsafe")
        if self._keep_removals:
            self._tree.whiteout("/".join([*above, hidden]))
            return
        path = self._tree.path_of("/".join([*above, hidden]))
        if path not in self._own:
            self._tree.remove(path)
        elif os.path.isdir(path) and not os.path.islink(path):
            self._clear(path)

    def _clear(self, folder: str) -> None:
        """Remove what lower layers have below a folder."""
        with suppress(FileNotFoundError, NotADirectoryError):
            for entry in sorted(os.listdir(folder)):
                path = f"{folder}/{entry}"
                if path not in self._own:
                    self._tree.remove(path)
                elif os.path.isdir(path) and not os.path.islink(path):
                    self._clear(path)


class _LayerTarReader(BoundedTar):
    """A layer's tar, hashed, and counted as what the image decompresses to."""

    def __init__(self, source: BinaryIO, budget: Budget, what: str) -> None:
        super().__init__(source, what)
        self._budget = budget
        self._hasher = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = super().read(size)
        self._budget.decompressed(len(data), self.what)
        self._hasher.update(data)
        return data

    @property
    def digest(self) -> str:
        return f"sha256:{self._hasher.hexdigest()}"


class _PrefixedStream(io.RawIOBase):
    """A stream whose first bytes were already read."""

    def __init__(self, start: bytes, rest: BinaryIO) -> None:
        self._start = start
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._start[: len(buffer)] or self._rest.read(len(buffer))
        self._start = self._start[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)
