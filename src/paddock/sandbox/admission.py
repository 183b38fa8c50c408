"""Admission of sandboxes: memory, cores and disk of this machine, granted in the order of the requests.

Law     first come, first served: a small demand does not overtake a large one, which would else wait for ever. What is
        granted is reserved until it is given back; what a sandbox uses meanwhile is the watchdog's business.
Units   MiB and cores (1.0 is one core; sandboxes that wait for a model need little of one).
Errors  ConfigError at once for a demand that is larger than all there is.
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import ClassVar, NamedTuple

import psutil
from pydantic import Field

from paddock.errors import ConfigError
from paddock.linux import usable_cores
from paddock.sandbox.leases import Lease, lease
from paddock.types import Record
from paddock.types.renamed import RenamedKeys

ROUNDING = 1e-6
"""Slack of comparisons, because sums of fractions are not exact."""
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class Capacity(NamedTuple):
    """An amount of machine; what is not bounded is infinite."""

    memory_mib: float
    cores: float
    disk_mib: float = 0.0
    sandboxes: float = 0.0

    def fits(self, within: "Capacity") -> bool:
        return all(own <= there + ROUNDING for own, there in zip(self, within, strict=True))

    def plus(self, other: "Capacity") -> "Capacity":
        return Capacity(*(own + more for own, more in zip(self, other, strict=True)))

    def less(self, other: "Capacity") -> "Capacity":
        """What is left; of what is not bounded all is."""
        return Capacity(*(own if math.isinf(own) else own - less for own, less in zip(self, other, strict=True)))


class AdmissionSettings(RenamedKeys, Record):
    """How much of this machine sandboxes may have, and what one is counted as."""

    OLD_NAMES: ClassVar[Mapping[str, str]] = {
        "memory_each_mib": "memory_per_sandbox_mib",
        "cores_each": "cores_per_sandbox",
    }

    memory_mib: int | None = Field(default=None, ge=1)
    """MiB of memory for all sandboxes together; None: this machine's, or its container's, less the headroom."""
    memory_headroom_mib: int = Field(default=1024, ge=0)
    """MiB of memory that are left to everything else, where `memory_mib` is None."""
    cores: float | None = Field(default=None, gt=0)
    """Cores for all sandboxes together; None: those that this process may use."""
    memory_per_sandbox_mib: int | None = Field(default=None, ge=1)
    """What one sandbox is counted as; None: its memory limit, so that all of them can be at their limits."""
    cores_per_sandbox: float = Field(default=0.25, ge=0)
    """Cores that one sandbox is counted as."""
    disk_mib: int | None = Field(default=None, ge=1)
    """MiB of disk for all sandboxes together; None: a node takes what is free at its start, an agent counts none."""
    disk_per_sandbox_mib: int = Field(default=256, ge=0)
    """MiB of disk that one sandbox is counted as."""
    max_sandboxes: int | None = Field(default=None, ge=1)
    """Sandboxes at the same time, whatever they are counted as; None: as many as there is room for."""

    def total(self) -> Capacity:
        memory = self.memory_mib if self.memory_mib is not None else machine_mib() - self.memory_headroom_mib
        return Capacity(
            max(0, memory),
            self.cores if self.cores is not None else float(usable_cores()),
            self.disk_mib or math.inf,
            self.max_sandboxes or math.inf,
        )

    def demand(self, limit_mib: int | None) -> Capacity:
        """What a sandbox with that memory limit is counted as; one without any limit has the machine to itself."""
        memory = self.memory_per_sandbox_mib or limit_mib
        return Capacity(
            self.total().memory_mib if memory is None else memory,
            self.cores_per_sandbox,
            float(self.disk_per_sandbox_mib),
            1.0,
        )

    def resolved(self, free_disk_mib: int) -> "AdmissionSettings":
        """The same with the amounts of this machine, for who is elsewhere."""
        total = self.total()
        memory_mib, disk_mib = max(1, int(total.memory_mib)), self.disk_mib or max(1, free_disk_mib)
        return self.model_copy(update={"memory_mib": memory_mib, "cores": total.cores, "disk_mib": disk_mib})


class Admission:
    """The free capacity and the queue of those who wait for it."""

    def __init__(self, total: Capacity) -> None:
        self.total = total
        self.free = total
        self._waiting: deque[tuple[Capacity, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        return sum(not future.done() for _, future in self._waiting)

    def check(self, demand: Capacity) -> None:
        """Raise ConfigError where the demand could never be granted."""
        if not demand.fits(self.total):
            raise ConfigError(
                f"a sandbox that is counted as {describe(demand)} never fits: there are {describe(self.total)} for "
                "sandboxes; lower limits.memory_mib, or see the fields of admission",
                kind="never_admitted",
            )

    @contextlib.asynccontextmanager
    async def hold(self, demand: Capacity) -> AsyncIterator[None]:
        """Wait until the demand is granted, and reserve it for the block."""
        self.check(demand)
        await self._take(demand)
        try:
            yield
        finally:
            self.give(demand)

    def take_now(self, demand: Capacity) -> bool:
        """Reserve it at once, until `give`; False: there is no room, or others wait for it."""
        if self.waiting or not demand.fits(self.free):
            return False
        self.free = self.free.less(demand)
        return True

    def give(self, demand: Capacity) -> None:
        """Give back what was taken."""
        self.free = self.free.plus(demand)
        self._grant()

    async def _take(self, demand: Capacity) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((demand, future))
        self._grant()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.give(demand)  # granted to a task that was cancelled
            else:
                self._grant()  # those that waited behind it may be granted
            raise

    def _grant(self) -> None:
        while self._waiting:
            demand, future = self._waiting[0]
            if not future.done() and not demand.fits(self.free):
                return
            self._waiting.popleft()
            if not future.done():
                self.free = self.free.less(demand)
                future.set_result(None)


async def shared_admission(settings: AdmissionSettings) -> Lease[Admission]:
    """The admission that all servers of this process with these settings share."""

    async def make() -> Admission:
        return Admission(settings.total())

    async def close(_admission: Admission) -> None:
        return

    return await lease(settings, make, close)


def describe(amount: Capacity) -> str:
    """The amount in words; without its disk where that is not bounded."""
    disk = "" if math.isinf(amount.disk_mib) else f", {amount.disk_mib:g} MiB of disk"
    return f"{amount.memory_mib:g} MiB of memory, {amount.cores:g} cores{disk}"


def machine_mib() -> float:
    """Memory of this machine, or of the container that we are in."""
    sizes = [psutil.virtual_memory().total]
    for path in _LIMITS:
        with contextlib.suppress(OSError, ValueError):
            sizes.append(int(Path(path).read_text()))
    return min(sizes) / 2**20
