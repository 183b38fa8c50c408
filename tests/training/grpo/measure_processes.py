"""`python -m tests.training.grpo.measure_processes LOGS [hang]`: what roles in processes of their own do, in JSON.

Runs in the environment that has Ray; `test_processes.py` says what it has to be. `hang`: with a role that runs, until
it is killed; tells the pids of its processes.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from paddock.errors import ConfigError, PaddockError
from paddock.training.grpo.processes import RoleProcess, RoleProcesses, local_ray, put


class Example:
    """A role."""

    def __init__(self, cancelled: Path) -> None:
        self._cancelled = cancelled

    async def add(self, one: int, other: int = 0) -> int:
        return one + other

    async def total(self, values: NDArray[np.int64]) -> list[int | bool]:
        """The sum, and whether the array is the process's own rather than one in shared memory."""
        return [int(values.sum()), bool(values.flags.writeable)]

    async def wait(self) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self._cancelled.touch()
            raise

    async def refuse(self) -> None:
        raise ConfigError("what would be right", kind="said")

    async def fail(self) -> None:
        raise ValueError("unforeseen")

    async def stop(self) -> None:
        """Nothing is held."""


async def make(cancelled: Path) -> Example:
    return Example(cancelled)


async def error_of(role: RoleProcess, name: str) -> list[str]:
    try:
        await role.call(name)
    except PaddockError as error:
        return [type(error).__name__, error.kind, error.message]
    return []


def listening(pids: set[int]) -> list[str]:
    """Addresses on which they listen."""
    found = (one for one in psutil.net_connections("tcp") if one.pid in pids and one.status == psutil.CONN_LISTEN)
    return sorted({str(one.laddr[0]) for one in found if one.laddr})


def tell(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def measure(processes: RoleProcesses, logs: Path) -> dict[str, Any]:
    cancelled = logs.parent / "cancelled"
    role = processes.start("example", env={"OWN": "1"})
    await role.make(make, cancelled)
    found: dict[str, Any] = {"apart": role.pid != os.getpid(), "sum": await role.call("add", 1, other=2)}
    found["shared"] = await role.call("total", await put(np.arange(10**6)))
    found |= {name: await error_of(role, name) for name in ("refuse", "fail")}
    task = asyncio.create_task(role.call("wait"))
    await asyncio.sleep(0.5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(60):
        while not cancelled.exists():
            await asyncio.sleep(0.05)
    family = {one.pid for one in psutil.Process().children(recursive=True)} | {os.getpid()}
    found["listening"] = listening(family)
    found["niceness"] = psutil.Process(role.pid).nice() - psutil.Process().nice()
    waiting = asyncio.create_task(error_of(role, "wait"))
    await asyncio.sleep(0.2)
    os.kill(role.pid, signal.SIGKILL)
    found["killed"] = await asyncio.wait_for(waiting, 60)
    found["after"] = await error_of(role, "add")
    return found


async def hang(processes: RoleProcesses, logs: Path) -> None:
    role = processes.start("example")
    await role.make(make, logs / "cancelled")
    tell([one.pid for one in psutil.Process().children(recursive=True)])
    await asyncio.sleep(3600)


def main() -> None:
    logs = Path(sys.argv[1])
    with local_ray(logs) as processes:
        if sys.argv[2:]:
            asyncio.run(hang(processes, logs))
        told = asyncio.run(measure(processes, logs))
        asyncio.run(processes.end())
    _, alive = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=60)
    tell({**told, "left": len(alive)})


if __name__ == "__main__":
    main()
