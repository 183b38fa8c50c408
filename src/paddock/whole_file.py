"""Files that are there whole or not at all.

Law     what is written goes into a file beside the target and takes its place at the end, after it is on the disk; an
        error or an interruption leaves the target as it was, and nothing beside it. A kill may leave the file beside.
Errors  OSError.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_path(target: Path) -> Iterator[Path]:
    """A path for somebody to write, beside `target`, whose place it takes when the block ends well. It keeps the
    target's suffix."""
    beside = target.with_name(f".{uuid.uuid4().hex[:8]}.new.{target.name}")
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(target)
        sync_folder(target.parent)
    finally:
        with suppress(OSError):
            beside.unlink()


@contextmanager
def whole_file(target: Path) -> Iterator[BinaryIO]:
    """A file that becomes `target` when the block ends well."""
    with whole_path(target) as beside, beside.open("wb", buffering=1 << 20) as file:
        yield file


def write_whole(target: Path, data: bytes | str) -> None:
    """Replace a file at once: readers and crashes see the old or the new content. Text is written in UTF-8."""
    with whole_file(target) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
