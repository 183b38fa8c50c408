"""The members of a tar that nobody vouches for, of which no header can fill the memory.

Why     tarfile reads long names, extended headers and maps of sparse files whole, as large as they say they are.
Errors  ImageInvalid `image_unsafe`: the headers of one member are larger than `HEADER_BYTES`.
"""

import io
import tarfile
from collections.abc import Iterator
from typing import BinaryIO

from paddock.sandbox.failures import ImageInvalid

HEADER_BYTES = 1 << 20
"""A path is 4 KiB at most, an extended attribute 64 KiB."""


class BoundedTar(io.RawIOBase):
    """A tar's bytes; while tarfile looks for a member, no more than its headers may have."""

    def __init__(self, source: BinaryIO, what: str) -> None:
        self._source = source
        self.what = what
        self.end: int | None = HEADER_BYTES
        """Where headers must have ended; None: contents are read."""
        self.position = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self.end is not None and not 0 <= size <= self.end - self.position:
            raise ImageInvalid(
                f"{self.what}: the headers before byte {self.position} belong to one member and are more than "
                f"{HEADER_BYTES} bytes, or say a size that can't be",
                kind="image_unsafe",
            )
        data = self._source.read(size)
        self.position += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.position = self._source.seek(offset, whence)
        return self.position

    def tell(self) -> int:
        return self.position


def members(tar: tarfile.TarFile, source: BoundedTar) -> Iterator[tarfile.TarInfo]:
    """The members of a tar that was opened on `source`; contents can be read while one is looked at."""
    while True:
        source.end = tar.offset + HEADER_BYTES
        member = tar.next()
        source.end = None
        if member is None:
            return
        if member.size < 0:
            raise ImageInvalid(f"{source.what}: a member says a size of {member.size} bytes", kind="image_unsafe")
        yield member
