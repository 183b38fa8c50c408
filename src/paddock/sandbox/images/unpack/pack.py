"""A layer of the store as a tar that other tools read: the inverse of `layer`, overlay's removals become names.

Owner   everything is root's: in the store it is the payload's, who is root in a sandbox.
Errors  ImageInvalid for a file whose own name begins as a removal does.
Removed a character device 0:0 is written `.wh.NAME`, the attribute `user.overlay.opaque` as `.wh..wh..opq`.
"""

import hashlib
import io
import os
import stat
import tarfile
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from paddock.sandbox.failures import ImageInvalid
from paddock.sandbox.images.unpack.layer import OPAQUE, OPAQUE_ATTRIBUTE, WHITEOUT


class LayerTar(NamedTuple):
    """A tar that was written."""

    digest: str
    size: int


def write_layer(root: Path, file: BinaryIO) -> LayerTar:
    """Write a layer's tree as a plain tar."""
    counted = _CountingFile(file)
    with tarfile.open(fileobj=cast(BinaryIO, counted), mode="w|", format=tarfile.PAX_FORMAT) as tar:
        _write_folder(tar, root)
    return LayerTar(f"sha256:{counted.hasher.hexdigest()}", counted.size)


def _write_folder(tar: tarfile.TarFile, root: Path) -> None:
    for folder, folders, files in os.walk(root):
        folders.sort()
        below = os.path.relpath(folder, root)
        for name in [
            "",
            *sorted([*files, *(link for link in folders if os.path.islink(f"{folder}/{link}"))]),
        ]:
            path = f"{folder}/{name}" if name else folder
            _write_entry(tar, path, os.path.normpath(f"{below}/{name}"))


def _write_entry(tar: tarfile.TarFile, path: str, name: str) -> None:
    info = os.lstat(path)
    if stat.S_ISCHR(info.st_mode) and info.st_rdev == 0:
        head, _, tail = name.rpartition("/")
        tar.addfile(tarfile.TarInfo(f"{head}/{WHITEOUT}{tail}" if head else f"{WHITEOUT}{tail}"))
        return
    if name.rpartition("/")[2].startswith(WHITEOUT):
        raise ImageInvalid(f"{name!r}: a layer's tar can't hold a name that says a removal", kind="name_reserved")
    member = tar.gettarinfo(path, arcname=name)
    if member is None:
        return
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    if not member.isreg():
        tar.addfile(member)
        if member.isdir() and _is_opaque(path):
            tar.addfile(tarfile.TarInfo(OPAQUE if name == "." else f"{name}/{OPAQUE}"))
        return
    with open(path, "rb") as content:
        tar.addfile(member, content)


def _is_opaque(path: str) -> bool:
    try:
        return os.getxattr(path, OPAQUE_ATTRIBUTE, follow_symlinks=False) == b"y"
    except OSError:
        return False


class _CountingFile(io.RawIOBase):
    """A file that hashes and counts what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.hasher = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.hasher.update(data)
        self.size += len(data)
        return self._file.write(data)
