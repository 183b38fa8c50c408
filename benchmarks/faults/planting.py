"""Faults of a machine, planted at the n-th run of tests below this process.

Kinds   `runner` and `keeper` are killed, `box` loses its first process, `stalled` holds the runner for `STALL_S`,
        `full` fills the disk of the sandboxes as the run begins and leaves it so until `close`.
"""

import os
import signal
import threading
from pathlib import Path
from typing import Literal, get_args

import psutil

from benchmarks.faults.disks import Ballast
from paddock.conformance.sandboxes.stage import first_of

Kind = Literal["runner", "box", "keeper", "stalled", "full"]
KINDS: tuple[Kind, ...] = get_args(Kind)
STALL_S = 12.0
"""Longer than the campaign's time limit of a run."""
PERIOD_S = 0.003
RUNNER = "pytest -rA"


class Fault(threading.Thread):
    """Waits for its run from `start` to `close`, and strikes once."""

    def __init__(self, kind: Kind, number: int, disk: Path) -> None:
        super().__init__(daemon=True)
        self.kind = kind
        self.number = number
        self.struck = False
        self._ballast = Ballast(disk)
        self._closed = threading.Event()

    def run(self) -> None:
        seen: set[int] = set()
        while not self._closed.wait(PERIOD_S):
            for process in _runners():
                if process.pid not in seen:
                    seen.add(process.pid)
                    if len(seen) == self.number:
                        self._strike(process)
                        return

    def close(self) -> None:
        """The machine is well again when this returns."""
        self._closed.set()
        self.join()
        self._ballast.free()

    def _strike(self, process: psutil.Process) -> None:
        try:
            if self.kind == "full":
                self._ballast.fill()
            elif self.kind == "stalled":
                process.suspend()
                self.struck = True
                self._closed.wait(STALL_S)
                process.resume()
            else:
                os.kill(_victim(self.kind, process), signal.SIGKILL)
        except (psutil.Error, OSError, IndexError, ValueError):
            return  # it ended before it could be struck
        self.struck = True


def _victim(kind: Kind, runner: psutil.Process) -> int:
    """A descendant of ours: the keeper is a runner's parent, or stands further out below the keepers' parent, which is
    our child. ValueError or IndexError where the runner has ended and has other ancestors."""
    if kind == "runner":
        return runner.pid
    if Path(f"/proc/{runner.pid}/ns/pid").readlink() == Path("/proc/self/ns/pid").readlink():
        raise ValueError(f"process {runner.pid} is in no sandbox")
    above = [one.pid for one in runner.parents()]
    ours = above[: above.index(os.getpid())]
    return first_of(runner.pid) if kind == "box" else ours[-2]


def _runners() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if RUNNER in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found
