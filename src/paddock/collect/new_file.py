"""Files that are there whole or not at all.

Law     what is written goes into a file beside the target and takes its place at the end, after it is on disk; an
        error or an interruption leaves the target as it was, and nothing beside it.
Errors  ConfigError for a place that can't be written.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from paddock.errors import ConfigError


@contextmanager
def new_file(target: Path, *, make_folder: bool = True) -> Iterator[BinaryIO]:
    """A file that becomes `target` when the block ends well. `make_folder`: that of `target`, if it is not there."""
    if target.exists() and not target.is_file():
        raise ConfigError(f"{target}: is there and is no file", kind="out_unwritable")
    beside = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        try:
            if make_folder:
                target.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("wb", buffering=1 << 20) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            beside.replace(target)
        finally:
            with suppress(OSError):
                beside.unlink()
    except OSError as error:
        raise ConfigError(f"{target}: can't be written: {error.strerror or error}", kind="out_unwritable") from error


def refuse_same(source: Path, target: Path) -> None:
    """ConfigError where a file would be written over what it is made from."""
    if target.exists() and source.exists() and target.samefile(source):
        raise ConfigError(f"{target}: is a file that is read: name another place with --out", kind="flag_invalid")
