"""What an image may take when it is unpacked here, checked before it is written: images are not trusted.

Bytes   of the files written, and of what their layers decompress to: two counts over all layers, one limit.
Entries over all layers, those that are replaced, removed or left out included.
Disk    what is to stay free on the disk that is written to.
Builds  what a recipe's steps write is counted after it is written, each layer by itself (`build.inside`); what they
        have of memory and processes while they run is bounded too (`build.bounds`).
Errors  ImageInvalid `image_too_large` says which limit, by what, and what raises it; InfraError `disk_full`.
"""

import os

from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import InfraError
from paddock.sandbox.failures import ImageInvalid

_LOOK_BYTES = 64 << 20
"""What may be written between two looks at the disk."""
_LOOK_ENTRIES = 10_000
_SHOWN = 120


class ImageLimits(BaseModel):
    """The `limits` of a config's `images` block: what one image may take of this machine when it is unpacked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unpacked_mib: int = Field(default=64 << 10, ge=1)
    """MiB of an image's files over all its layers, and of what these decompress to, however small they come."""
    entries: int = Field(default=5_000_000, ge=1)
    """Files, folders and links of all its layers."""
    min_free_disk_mib: int = Field(default=64, ge=0)
    """MiB that stay free on the disk of the store, or the machine is called full; 0: any room will do."""
    build_memory_mib: int = Field(default=8192, ge=16)
    """MiB that the processes of one step of a recipe's build may have together, with what lies in its `/tmp`."""
    build_pids: int = Field(default=4096, ge=16)
    """Processes and threads of the same."""


class Budget:
    """The limits of one image, and what it has used of them. `folder` is on the disk that is written to."""

    def __init__(self, limits: ImageLimits, folder: str) -> None:
        self.limits = limits
        self._folder = folder
        self._most = limits.unpacked_mib << 20
        self._entries = 0
        self._decompressed = 0
        self._written = 0
        self._unchecked_bytes = _LOOK_BYTES
        """Bytes written since the last look at the disk; at first so many that the first ones are worth a look."""

    def entry(self, name: str) -> None:
        """Count one more entry."""
        self.add_entries(1, shorten(name))
        if self._entries % _LOOK_ENTRIES == 0:
            self._look(0)

    def add_entries(self, n: int, what: str) -> None:
        self._entries += n
        if self._entries > self.limits.entries:
            raise limit_passed(f"{what}: the image has more than {self.limits.entries} entries", "entries")

    def decompressed(self, n_bytes: int, what: str) -> None:
        """Count bytes that were decompressed."""
        self._decompressed += n_bytes
        if self._decompressed > self._most:
            raise limit_passed(f"{what}: the image unpacks to more than {self.limits.unpacked_mib} MiB", "unpacked_mib")

    def reserve(self, n_bytes: int, what: str) -> None:
        """Check that so many bytes may be written next."""
        if self._written + n_bytes > self._most:
            raise limit_passed(
                f"{what}: {n_bytes} bytes come to {self._written} already written, "
                f"and the image may have {self.limits.unpacked_mib} MiB",
                "unpacked_mib",
            )
        if self._unchecked_bytes + n_bytes > _LOOK_BYTES:
            self._look(n_bytes)

    def wrote(self, n_bytes: int, what: str) -> None:
        """Count bytes that were written."""
        self._written += n_bytes
        self._unchecked_bytes += n_bytes
        self.reserve(0, what)

    def hold(self, n_bytes: int, n_entries: int, *, whole: bool) -> None:
        """Check the count of what a build wrote; not `whole`: not all of it could be counted."""
        if n_entries > self.limits.entries:
            raise limit_passed(f"the build has written more than {self.limits.entries} entries", "entries")
        if n_bytes > self._most:
            wrote = f"the build has written {n_bytes >> 20} MiB"
            raise limit_passed(f"{wrote}, and a layer may have {self.limits.unpacked_mib}", "unpacked_mib")
        if not whole:
            raise ImageInvalid("the build has nested folders too deep to be counted", kind="image_too_large")
        self._look(0)

    def _look(self, n_bytes: int) -> None:
        self._unchecked_bytes = 0
        disk, least_mib = os.statvfs(self._folder), self.limits.min_free_disk_mib
        free = disk.f_bavail * disk.f_frsize
        if free - (least_mib << 20) < n_bytes:
            raise full_disk(
                f"{self._folder}: {free >> 20} MiB are free on its disk, {n_bytes >> 20} are to be written and "
                f"{least_mib} to stay free (images.limits.min_free_disk_mib)"
            )


def full_disk(message: str) -> InfraError:
    return InfraError(message, kind="disk_full")


def shorten(name: str) -> str:
    """An entry's name for a message: it may be a megabyte."""
    text = repr(name)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(name)} characters)"


def limit_passed(message: str, setting: str, *, kind: str = "image_too_large") -> ImageInvalid:
    """`setting`: the key that raises it; the flag has the same name."""
    flag = setting.replace("_", "-")
    return ImageInvalid(
        f"{message}; if it is to be trusted, raise `images: {{limits: {{{setting}: N}}}}` in the config, "
        f"--{flag} N of `paddock images`",
        kind=kind,
    )
