"""What a build's step may have of memory and processes: by the same means as a sandbox, a cgroup and a watchdog.

Memory  anonymous and shared, of all its processes; what lies in its `/tmp` and `/mnt` is of it.
Pids    processes and threads, and none starts beyond the limit; without a cgroup processes alone, as looks find them.
Ends    the step that passes a limit, even one that goes on without what it was refused: what it made is not what its
        recipe says.
Errors  ImageInvalid `build_limit` says which limit, and what raises it. SandboxError: the machine's memory is short.
Left    of a builder that is killed an empty cgroup, which the next provider removes.
"""

import asyncio
import json
import os
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from paddock.sandbox import processes
from paddock.sandbox.cgroups import Cgroup, find_cgroups
from paddock.sandbox.failures import Budget, ImageInvalid
from paddock.sandbox.images.unpack.limits import ImageLimits, limit_passed
from paddock.sandbox.records import MemoryKill, SandboxLimits
from paddock.sandbox.watchdog import Watchdog, WatchedSandbox

_STEP = "build"
_TMPFS = ("/tmp", "/mnt", "/dev")  # noqa: S108 - the sandbox's own
_ENTER = 'while [ "$1" != -- ]; do echo 0 >"$1" || exit 1; shift; done; shift; exec "$@"'


class StepBounds:
    """Of one step."""

    def __init__(self, limits: ImageLimits, dog: Watchdog, cgroup: Cgroup | None) -> None:
        self._limits = limits
        self._dog = dog
        self._cgroup = cgroup
        self._passed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.watching = False

    def inside(self, argv: Sequence[str | Path]) -> list[str | Path]:
        """A command that is within the bounds, and becomes `argv`."""
        return ["sh", "-c", _ENTER, "sh", *(self._cgroup.procs_files if self._cgroup else ()), "--", *argv]

    async def wait(self, step: "asyncio.Future[Any]", timeout_s: float) -> bool:
        """For the step's end, or until it is to be ended; answers whether it has ended."""
        either: list[asyncio.Future[Any]] = [step, self._passed]
        await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        return step.done()

    async def look(self, status: Path) -> None:
        """Raises once a limit is passed. `status`: where bubblewrap says what the step's first process is."""
        if self.watching:
            await self._dog.look(_STEP)
        elif (pid := first_process(status)) is not None and _is_set_up(pid):
            await self._dog.watch(self._watched(pid))
            self.watching = True
        # The kernel may have acted before anybody watched.
        if self._cgroup and not self._passed.done():
            if self._cgroup.pids_refused():
                self._pass("pids")
            elif self._cgroup.oom_kills() and self._cgroup.limit_hits():
                self._pass("memory")
        if self._passed.done():
            raise self._passed.result()

    def _watched(self, pid: int) -> WatchedSandbox:
        return WatchedSandbox(
            sandbox_id=_STEP,
            limits=_sandbox_limits(self._limits),
            pid=pid,
            on_killed=self._killed,
            on_exhausted=lambda budget, _message: self._pass(budget),
            on_lost=self._end,
            cgroup=self._cgroup,
            tmpfs=_TMPFS,
        )

    def _killed(self, killed: MemoryKill) -> None:
        self._pass("memory", f", {killed.memory_mib:.0f} MiB of it in `{killed.command}`")

    def _pass(self, budget: Budget, detail: str = "") -> None:
        self._end(_memory(self._limits, detail) if budget == "memory" else _pids(self._limits))

    def _end(self, error: Exception) -> None:
        if not self._passed.done():
            self._passed.set_result(error)


@asynccontextmanager
async def bounds_of(limits: ImageLimits) -> AsyncIterator[StepBounds]:
    """Nothing within them lives on."""
    cgroups = await asyncio.to_thread(find_cgroups)
    owner = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
    try:
        cgroup = None
        if cgroups:
            cgroup = await asyncio.to_thread(cgroups.make, owner, _STEP, _sandbox_limits(limits))
        async with Watchdog() as dog:
            yield StepBounds(limits, dog, cgroup)
    finally:
        if cgroups:
            await asyncio.shield(asyncio.to_thread(cgroups.remove_owner, owner))


def _sandbox_limits(limits: ImageLimits) -> SandboxLimits:
    return SandboxLimits(memory_mib=limits.build_memory_mib, pids=limits.build_pids, disk_mib=None, disk_files=None)


def first_process(status: Path) -> int | None:
    """None: bubblewrap has not said it yet, or only a part of it, for it writes a line bit by bit."""
    line, end, _ = status.read_text().partition("\n")
    return int(json.loads(line)["child-pid"]) if end else None


def _is_set_up(pid: int) -> bool:
    """It has the mounts of its own, before which those of this machine would be counted: then it starts the step."""
    return bool(processes.descendants(processes.process_of(pid)))


def _memory(limits: ImageLimits, detail: str) -> ImageInvalid:
    message = f"the build has used up its {limits.build_memory_mib} MiB of memory{detail}"
    return limit_passed(message, "build_memory_mib", kind="build_limit")


def _pids(limits: ImageLimits) -> ImageInvalid:
    message = f"the build has started more processes and threads at once than its {limits.build_pids}"
    return limit_passed(message, "build_pids", kind="build_limit")
