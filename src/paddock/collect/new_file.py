"""Output files that a user names, written whole or not at all (`paddock.whole_file`).

Errors  ConfigError for a place that can't be written.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from paddock.errors import ConfigError
from paddock.whole_file import whole_file


@contextmanager
def new_file(target: Path, *, make_folder: bool = True) -> Iterator[BinaryIO]:
    """A file that becomes `target` when the block ends well. `make_folder`: make its folder if missing."""
    if target.exists() and not target.is_file():
        raise ConfigError(f"{target}: is there and is no file", kind="out_unwritable")
    try:
        if make_folder:
            target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as file:
            yield file
    except OSError as error:
        raise ConfigError(f"{target}: can't be written: {error.strerror or error}", kind="out_unwritable") from error


def refuse_same(source: Path, target: Path) -> None:
    """ConfigError where an output file would overwrite the input that it is made from."""
    if target.exists() and source.exists() and target.samefile(source):
        raise ConfigError(f"{target}: is a file that is read: name another place with --out", kind="flag_invalid")
