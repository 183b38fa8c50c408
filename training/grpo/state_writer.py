"""Writes tensors by torch's distributed checkpoint: at once, or from a copy in memory of the CPU while work goes on.

Law     all of a process's writing in the background is done by one thread, a state after the other, in a process group
        of its own, so that processes that write together meet in the same order, and never in the middle of a step.
        Only the copy is written: what is stored is the state at the time of the call.
Errors  InfraError `disk` when the disk refuses a state: of the background from `finish`.
"""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from torch.distributed.checkpoint import FileSystemWriter, save
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.staging import BlockingAsyncStager

from paddock.errors import InfraError

REFUSED = (CheckpointException, OSError, RuntimeError)
"""What torch raises where the disk refuses: RuntimeError where it is full."""


class _PendingWrite(NamedTuple):
    folder: Path
    done: Future[Any]


class StateWriter:
    """Of one process."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="state-writer")
        self._pending: list[_PendingWrite] = []

    def write(
        self,
        folder: Path,
        tensors: Mapping[str, Any],
        *,
        background: bool,
        copied: bool = False,
        group: Any = None,
        alone: bool = False,
        planner: Any = None,
    ) -> None:
        """Write this process's part of the tensors into the folder. `background`: return once they are copied, which
        they are already where `copied`. `group`: of the processes that write together, on the CPU; `alone`: there are
        no others."""
        write = partial(
            save, storage_writer=FileSystemWriter(folder), planner=planner, process_group=group, no_dist=alone
        )
        if background:
            staged = dict(tensors) if copied else BlockingAsyncStager().stage(dict(tensors))
            self._pending.append(_PendingWrite(folder, self._thread.submit(write, staged)))
            return
        try:
            write(dict(tensors))
        except REFUSED as error:
            raise not_written(folder, error) from error

    def finish(self) -> None:
        """Wait until all that was begun is on the disk."""
        pending, self._pending = self._pending, []
        for folder, done in pending:
            try:
                done.result()
            except REFUSED as error:
                raise not_written(folder, error) from error

    def close(self) -> None:
        """Begin nothing more; what is being written is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def not_written(folder: Path, error: BaseException) -> InfraError:
    """The error of a disk that refuses a state."""
    return InfraError(f"{folder}: can't be written: {reason_of(error)}", kind="disk", retryable=False)


def reason_of(error: BaseException) -> str:
    """What torch's error, which has the traceback of every process in it, comes from."""
    if isinstance(error, CheckpointException) and error.failures:
        rank, (first, _) = next(iter(error.failures.items()))
        return f"{type(first).__name__}: {first} (process {rank})"
    return str(error)
