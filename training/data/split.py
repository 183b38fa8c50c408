"""The recipes' validation split: the last rows of a file, nothing shuffled.

Law     lines are copied byte for byte, empty ones left out; `NAME/train-split.jsonl` and `NAME/val-split.jsonl` for
        `NAME.jsonl`. A file with no more rows than are held out is training data alone, and has no validation file.
"""

from pathlib import Path
from typing import NamedTuple

from paddock.collect.new_file import new_file, refuse_same
from paddock.errors import ConfigError
from paddock.training.data.tables import numbered_lines

TRAIN, VALIDATION = "train-split.jsonl", "val-split.jsonl"


class RowSplit(NamedTuple):
    """The two files that a file was split into."""

    train: Path
    n_train: int
    validation: Path | None
    """The file of validation rows; None: there were too few rows to hold any out."""
    n_validation: int


def split_last(source: Path, folder: Path, *, last: int) -> RowSplit:
    """Split one file into the folder of its name below `folder`; the last `last` rows are validation rows."""
    n_rows = sum(1 for _ in numbered_lines(source))
    if n_rows == 0:
        raise ConfigError(f"{source}: has no rows", kind="no_rows")
    held_out = last if n_rows > last else 0
    train, validation = (folder / source.stem / name for name in (TRAIN, VALIDATION))
    for target in (train, validation):
        refuse_same(source, target)
    rows = numbered_lines(source)
    # Both take their places when both are whole.
    with new_file(train) as first:
        for _ in range(n_rows - held_out):
            first.write(_line(next(rows)[1]))
        if held_out:
            with new_file(validation) as second:
                for _, text in rows:
                    second.write(_line(text))
    if not held_out:
        validation.unlink(missing_ok=True)
    return RowSplit(train, n_rows - held_out, validation if held_out else None, held_out)


def _line(text: bytes) -> bytes:
    return text if text.endswith(b"\n") else text + b"\n"
