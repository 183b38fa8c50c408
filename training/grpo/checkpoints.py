"""Checkpoints of a run on the disk: whole, or not there.

    step_N/checkpoint.json   its step and metric, and the size of each file      step_N/loop.json     the loop's books
    step_N/policy/           what the policy stored                              step_N/buffer.jsonl  groups that wait
    step_N/rollouts/         what the rollout worker stored

Law     a checkpoint is written beside its place, put on the disk file by file, and then renamed. Folders in which
        something is missing are never read. The newest is always kept, the `keep_top_k` best besides.
Errors  InfraError, kind `disk`, not retryable, when the disk refuses.
"""

import asyncio
import logging
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import orjson

from paddock.errors import InfraError
from paddock.training.core.records import Group
from paddock.training.core.wire import group_from_wire, group_to_wire
from paddock.types import JsonObject
from paddock.whole_file import sync_folder

_log = logging.getLogger("paddock.training")
ABOUT = "checkpoint.json"
BOOKS = "loop.json"
BUFFER = "buffer.jsonl"
_OURS = re.compile(r"step_\d+|\.step_\d+\.(new|gone)")
Fill = Callable[[Path], Awaitable[None]]


class State(NamedTuple):
    """What the loop itself has to remember."""

    books: JsonObject
    waiting: Sequence[Group]


class Stored(NamedTuple):
    """A whole checkpoint."""

    step: int
    """Steps that had been done."""
    metric: float | None
    folder: Path

    @property
    def policy(self) -> Path:
        return self.folder / "policy"

    @property
    def rollouts(self) -> Path:
        return self.folder / "rollouts"

    def read(self) -> State:
        books = orjson.loads((self.folder / BOOKS).read_bytes())
        with (self.folder / BUFFER).open("rb") as lines:
            return State(books, [group_from_wire(orjson.loads(line)) for line in lines])


class Checkpoints:
    """Of one run, in a folder of their own."""

    def __init__(self, folder: Path, *, keep_top_k: int | None = 3, higher_is_better: bool = True) -> None:
        """`keep_top_k`: None: all are kept."""
        self._folder = folder
        self._keep = keep_top_k
        self._sign = 1 if higher_is_better else -1

    def all(self) -> list[Stored]:
        """Whole ones, oldest first."""
        found = (_stored(folder) for folder in self._folders() if not folder.name.startswith("."))
        return sorted((stored for stored in found if stored is not None), key=lambda stored: stored.step)

    def newest(self) -> Stored | None:
        return next(reversed(self.all()), None)

    def best(self) -> Stored | None:
        """By its metric; of equals the newest; without any metric the newest."""
        return next(iter(self._ranked()), None)

    async def write(self, step: int, metric: float | None, state: State, fill: Fill) -> Stored:
        """`fill` stores what is not the loop's into the folder it is given, under `policy` and `rollouts`."""
        place = self._folder / f"step_{step}"

        async def whole(beside: Path) -> None:
            (beside / "policy").mkdir()
            (beside / "rollouts").mkdir()
            await fill(beside)
            with _disk(place):
                await asyncio.to_thread(_write_own, beside, step, metric, state)

        await write_whole_folder(place, whole)
        with _disk(self._folder):
            await asyncio.to_thread(self._tidy)
        return Stored(step, metric, place)

    def clean(self) -> None:
        """Removes what a killed run left half done."""
        with _disk(self._folder):
            for folder in self._folders():
                if folder.name.startswith("."):
                    shutil.rmtree(folder)
                elif _stored(folder) is None:
                    _log.warning("%s is not whole: removed", folder)
                    shutil.rmtree(folder)

    def _folders(self) -> list[Path]:
        """Those that have the names of checkpoints, whole or not; what else is there may be anybody's."""
        return [path for path in self._folder.glob("*") if _OURS.fullmatch(path.name) and path.is_dir()]

    def _ranked(self) -> list[Stored]:
        def rank(stored: Stored) -> tuple[bool, float, int]:
            known = stored.metric is not None
            return (known, self._sign * (stored.metric or 0.0), stored.step)

        return sorted(self.all(), key=rank, reverse=True)

    def _tidy(self) -> None:
        if self._keep is None:
            return
        newest = self.newest()
        for stored in self._ranked()[self._keep :]:
            if stored != newest:
                _remove(stored.folder)


async def write_whole_folder(place: Path, fill: Fill) -> None:
    """What `fill` writes into the folder that it is given is at `place` once it is all on the disk; what was there
    before is gone."""
    beside = place.with_name(f".{place.name}.new")
    with _disk(place):
        await asyncio.to_thread(_begin, beside)
    await fill(beside)
    with _disk(place):
        await asyncio.to_thread(_put, beside, place)


def _begin(beside: Path) -> None:
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)


def _put(beside: Path, place: Path) -> None:
    for root, _, files in os.walk(beside, topdown=False):
        for name in files:
            with (Path(root) / name).open("rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(root))
    if place.exists():
        _remove(place)
    beside.rename(place)
    sync_folder(place.parent)


def _remove(folder: Path) -> None:
    # Renamed first: what is half removed must not look whole.
    gone = folder.with_name(f".{folder.name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    folder.rename(gone)
    shutil.rmtree(gone)


def _write_own(folder: Path, step: int, metric: float | None, state: State) -> None:
    (folder / BOOKS).write_bytes(orjson.dumps(state.books, option=orjson.OPT_INDENT_2))
    with (folder / BUFFER).open("wb") as lines:
        for group in state.waiting:
            lines.write(orjson.dumps(group_to_wire(group), option=orjson.OPT_APPEND_NEWLINE))
    about = {"step": step, "metric": metric, "files": _sizes(folder)}
    (folder / ABOUT).write_bytes(orjson.dumps(about, option=orjson.OPT_INDENT_2))


def _sizes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / ABOUT
    }


def _stored(folder: Path) -> Stored | None:
    try:
        about = orjson.loads((folder / ABOUT).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    if not about["files"].items() <= _sizes(folder).items():
        return None
    return Stored(about["step"], about["metric"], folder)


@contextmanager
def _disk(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InfraError(f"{place}: can't be written: {error}", kind="disk", retryable=False) from error
