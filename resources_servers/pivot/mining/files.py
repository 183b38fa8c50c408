"""Trajectories of files and folders: JSON, JSON lines, Parquet, `.traj`.

Law     files of a folder in the order of their names; of a run's folder its rollouts alone. What can't be read is
        reported with its place and does not stop the others.
Errors  ConfigError for a path that is not there, and where Parquet needs a package that is not installed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from paddock.collect.folder import ROLLOUTS, RUN
from paddock.errors import ConfigError
from paddock.resources_servers.pivot.mining.forms import read_record
from paddock.resources_servers.pivot.mining.trajectory import Trajectory, TrajectoryError

SUFFIXES = (".jsonl", ".json", ".traj", ".parquet")
_PARQUET_BATCH_ROWS = 16


class TrajectoryEntry(NamedTuple):
    """One record of a file."""

    where: str
    """The file, and the line or row in it."""
    trajectory: Trajectory | None
    problem: str = ""
    """Why there is no trajectory; empty: there is one."""


def read_trajectories(path: Path) -> Iterator[TrajectoryEntry]:
    """Yield what a file, or each file below a folder, holds."""
    if not path.exists():
        raise ConfigError(
            f"{path}: is not there; needs a file or folder with {', '.join(SUFFIXES)}", kind="no_such_file"
        )
    files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES) if path.is_dir() else [path]
    runs = {file.parent for file in files if file.name == RUN}
    for file in files:
        if file.parent in runs and file.name != ROLLOUTS:
            continue
        yield from _read_file(file)


def _read_file(file: Path) -> Iterator[TrajectoryEntry]:
    for where, record, problem in _records(file):
        if problem:
            yield TrajectoryEntry(where, None, problem)
            continue
        try:
            yield TrajectoryEntry(where, read_record(record, where))
        except TrajectoryError as error:
            yield TrajectoryEntry(where, None, str(error))


def _records(file: Path) -> Iterator[tuple[str, dict[str, Any], str]]:
    if file.suffix == ".parquet":
        yield from ((f"{file}:{number}", row, "") for number, row in enumerate(_parquet_rows(file)))
        return
    if file.suffix == ".jsonl":
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.isspace():
                    yield _parsed(f"{file}:{number}", line)
        return
    where, value, problem = _parsed(str(file), file.read_bytes())
    if not problem:
        # A name of its own where the file's is all there is.
        value.setdefault("instance_id", file.name.split(".")[0])
    yield where, value, problem


def _parsed(where: str, data: bytes) -> tuple[str, dict[str, Any], str]:
    try:
        value = orjson.loads(data)
    except ValueError as error:
        return where, {}, f"no JSON: {error}"
    if isinstance(value, list):
        is_events = any(isinstance(entry, dict) and {"action", "observation", "kind"} & entry.keys() for entry in value)
        value = {"events" if is_events else "messages": value}
    return (where, value, "") if isinstance(value, dict) else (where, {}, "no JSON object")


def _parquet_rows(file: Path) -> Iterator[dict[str, Any]]:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ConfigError(f"{file}: Parquet needs `pip install pyarrow`", kind="package_missing") from error
    for batch in ParquetFile(file).iter_batches(batch_size=_PARQUET_BATCH_ROWS):
        yield from batch.to_pylist()
