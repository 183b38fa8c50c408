"""Checkpoints of a run on the disk: each is complete, or is not there.

    step_N/checkpoint.json   its step and metric, and the size of each file      step_N/loop.json     the loop's state
    step_N/policy/           what the policy stored                              step_N/waiting.npz   groups that wait
    step_N/rollouts/         what the rollout worker stored

Law     a checkpoint is written under another name, synced file by file, and then renamed. Incomplete folders are never
        read. The newest checkpoint is always kept, and besides it the `keep_top_k` best.
Errors  InfraError, not retryable: `disk` when the disk refuses, `checkpoint` for one that is damaged.
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
from zipfile import BadZipFile

import orjson

from paddock.errors import InfraError
from paddock.training.core.records import Group
from paddock.training.core.wire import group_from_line, read_groups, write_groups
from paddock.types import JsonObject
from paddock.whole_file import sync_folder

_log = logging.getLogger("paddock.training")
INFO = "checkpoint.json"
LOOP = "loop.json"
WAITING = "waiting.npz"
OLD_WAITING = "buffer.jsonl"
"""Its name and form in checkpoints that the version before wrote."""
_FOLDER_NAME = re.compile(r"step_\d+|\.step_\d+\.(new|gone)")
Fill = Callable[[Path], Awaitable[None]]


OLD_NAMES = {"n_begun": "n_started", "again": "retries", "n_again": "n_retries", "in_a_row": "failures_in_a_row"}
"""Fields of checkpoints that the version before wrote, and what they are called."""


class LoopState(NamedTuple):
    """The loop's own part of a checkpoint."""

    fields: JsonObject
    """The ledger, the count of failures in a row, and the metrics of the validation after this step."""
    waiting: Sequence[Group]


class Checkpoint(NamedTuple):
    """A complete checkpoint."""

    step: int
    """How many steps had been done."""
    metric: float | None
    folder: Path

    @property
    def policy(self) -> Path:
        return self.folder / "policy"

    @property
    def rollouts(self) -> Path:
        return self.folder / "rollouts"

    def read(self) -> LoopState:
        """InfraError `checkpoint` where its files are damaged."""
        try:
            return self._read()
        except (BadZipFile, EOFError, KeyError, TypeError, ValueError) as error:
            raise InfraError(
                f"{self.folder} can't be read: {error!r}; without this checkpoint a run goes on from the one before",
                kind="checkpoint",
                retryable=False,
            ) from error

    def _read(self) -> LoopState:
        fields = _renamed(orjson.loads((self.folder / LOOP).read_bytes()))
        if not (old := self.folder / OLD_WAITING).exists():
            return LoopState(fields, read_groups(self.folder / WAITING))
        with old.open("rb") as lines:
            return LoopState(fields, list(map(group_from_line, lines)))


def _renamed(fields: JsonObject) -> JsonObject:
    """The fields, and those of the ledger among them, under their names where the version before wrote them."""
    return {OLD_NAMES.get(name, name): _renamed(value) if name == "ledger" else value for name, value in fields.items()}


class Checkpoints:
    """The checkpoints of one run, in a folder of their own."""

    def __init__(self, folder: Path, *, keep_top_k: int | None = 3, higher_is_better: bool = True) -> None:
        """`keep_top_k` None: all are kept."""
        self._folder = folder
        self._keep = keep_top_k
        self._sign = 1 if higher_is_better else -1

    def all(self) -> list[Checkpoint]:
        """The complete checkpoints, oldest first."""
        checkpoints = (_read_checkpoint(folder) for folder in self._folders() if not folder.name.startswith("."))
        return sorted(
            (checkpoint for checkpoint in checkpoints if checkpoint is not None), key=lambda checkpoint: checkpoint.step
        )

    def newest(self) -> Checkpoint | None:
        return next(reversed(self.all()), None)

    def best(self) -> Checkpoint | None:
        """The best checkpoint by its metric; of equals, and where none has a metric, the newest."""
        return next(iter(self._ranked()), None)

    async def write(self, step: int, metric: float | None, state: LoopState, fill: Fill) -> Checkpoint:
        """Store a checkpoint. `fill` writes the parts of the other roles into the folder it is given, under `policy`
        and `rollouts`. InfraError when the disk refuses."""
        target = self._folder / f"step_{step}"

        async def write_all(partial: Path) -> None:
            (partial / "policy").mkdir()
            (partial / "rollouts").mkdir()
            await fill(partial)
            with _disk(target):
                await asyncio.to_thread(_write_own, partial, step, metric, state)

        await write_whole_folder(target, write_all)
        with _disk(self._folder):
            await asyncio.to_thread(self._remove_surplus)
        return Checkpoint(step, metric, target)

    def clean(self) -> None:
        """Remove the incomplete folders that a killed run left."""
        with _disk(self._folder):
            for folder in self._folders():
                if folder.name.startswith("."):
                    shutil.rmtree(folder)
                elif _read_checkpoint(folder) is None:
                    _log.warning("%s is incomplete: removed", folder)
                    shutil.rmtree(folder)

    def _folders(self) -> list[Path]:
        """Folders with the names of checkpoints, complete or not; other files are not touched."""
        return [path for path in self._folder.glob("*") if _FOLDER_NAME.fullmatch(path.name) and path.is_dir()]

    def _ranked(self) -> list[Checkpoint]:
        def rank(checkpoint: Checkpoint) -> tuple[bool, float, int]:
            has_metric = checkpoint.metric is not None
            return (has_metric, self._sign * (checkpoint.metric or 0.0), checkpoint.step)

        return sorted(self.all(), key=rank, reverse=True)

    def _remove_surplus(self) -> None:
        if self._keep is None:
            return
        newest = self.newest()
        for checkpoint in self._ranked()[self._keep :]:
            if checkpoint != newest:
                _remove(checkpoint.folder)


async def write_whole_folder(target: Path, fill: Fill) -> None:
    """Have `fill` write a folder, and put it at `target`, in place of what is there, once all of it is on the disk."""
    partial = target.with_name(f".{target.name}.new")
    with _disk(target):
        await asyncio.to_thread(_begin, partial)
    await fill(partial)
    with _disk(target):
        await asyncio.to_thread(_move_into_place, partial, target)


def _begin(partial: Path) -> None:
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)


def _move_into_place(partial: Path, target: Path) -> None:
    for root, _, files in os.walk(partial, topdown=False):
        for name in files:
            with (Path(root) / name).open("rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(root))
    if target.exists():
        _remove(target)
    partial.rename(target)
    sync_folder(target.parent)


def _remove(folder: Path) -> None:
    # Renamed first: what is half removed must not look whole.
    gone = folder.with_name(f".{folder.name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    folder.rename(gone)
    shutil.rmtree(gone)


def _write_own(folder: Path, step: int, metric: float | None, state: LoopState) -> None:
    (folder / LOOP).write_bytes(orjson.dumps(state.fields, option=orjson.OPT_INDENT_2))
    write_groups(folder / WAITING, state.waiting)
    info = {"step": step, "metric": metric, "files": _sizes(folder)}
    (folder / INFO).write_bytes(orjson.dumps(info, option=orjson.OPT_INDENT_2))


def _sizes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / INFO
    }


def _read_checkpoint(folder: Path) -> Checkpoint | None:
    try:
        info = orjson.loads((folder / INFO).read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None
    except OSError as error:  # of a network's disk it may pass, and what is not read is removed
        raise InfraError(f"{folder}: can't be read: {error}", kind="disk", retryable=False) from error
    if not info["files"].items() <= _sizes(folder).items():
        return None
    return Checkpoint(info["step"], info["metric"], folder)


@contextmanager
def _disk(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InfraError(f"{target}: can't be written: {error}", kind="disk", retryable=False) from error
