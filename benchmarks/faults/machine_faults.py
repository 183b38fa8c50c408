"""Faults of a machine, made some time after the n-th run of a grading's tests has begun or ended.

Kinds   `runner`, `box` and `keeper` kill the tests, a sandbox's first process, its keeper; `stalled` holds the tests
        for `STALL_S`; `sandbox_full` writes more into a sandbox than it may; `full` fills the disk of the sandboxes;
        `memory` lets the kernel kill in sandboxes because all of them together, not one, have no more; `clock` turns
        the clock by up to years, forth or back; `layer` takes a layer of the image away, or what is in it.
Lasting what is full, gone or wrong stays so until `close`; memory for `MEMORY_S` or until then.
Waits   a kill whose victim is not there when its time has come waits for one.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import psutil

from benchmarks.faults.disks import Ballast
from benchmarks.faults.machine import SmallMachine
from benchmarks.faults.stages import Stages
from paddock.conformance.sandboxes.fixture import namespace_init, namespace_of

Kind = Literal["runner", "box", "keeper", "stalled", "sandbox_full", "full", "memory", "clock", "layer"]
KINDS: dict[Kind, float] = {**dict.fromkeys(get_args(Kind), 1.0), "stalled": 0.4}
"""With the share of each, beside the others': to be stalled takes long."""
STALL_S = 21.0
"""Longer than the campaign's time limit of a run."""
PERIOD_S = 0.01
RUNNER = "pytest -rA"
OVERFLOW_MIB = 300
"""Written into a sandbox: more than its limit, and so little that the machine's disk has room left."""
MEMORY_MIB = 48
"""Left to all sandboxes before something takes it."""
MEMORY_S = 0.5
CLOCKS = (-(10**8), -86_400, -60, 60, 86_400, 10**8)
"""Seconds."""
HOLDER = """
import os, sys
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
open("/proc/self/oom_score_adj", "w").write("-1000")
held = []
while True:
    held.append(b"x" * (1 << 20))
"""


class StrikeTime(NamedTuple):
    """When a fault strikes."""

    run: int
    """Which run of the grading's tests, from 1; 0: the time counts from the grading's begin."""
    at_end: bool
    """From the end of that run, not from its begin."""
    delay_s: float
    """Seconds from there."""


class MachineFault(threading.Thread):
    """Waits for its moment from `start` to `close`, and strikes once."""

    def __init__(self, kind: Kind, strike_time: StrikeTime, machine: SmallMachine, layer: str, stages: Stages) -> None:
        """`layer` is one of the image's; `stages` tell when it is time."""
        super().__init__(daemon=True)
        self.kind = kind
        self.struck: str | None = None
        """The stage in which it struck; None: not yet."""
        self._strike_time = strike_time
        self._machine = machine
        self._layer = machine.home / "layers" / layer
        self._stages = stages
        self._closed = threading.Event()
        self._undo = contextlib.ExitStack()

    def run(self) -> None:
        while not self._has_come() and not self._closed.wait(PERIOD_S):
            pass
        self._closed.wait(self._strike_time.delay_s)
        while self.struck is None and not self._closed.wait(PERIOD_S):
            stage = self._stages.now
            with contextlib.suppress(psutil.Error, OSError, AssertionError, ValueError):  # the victim has just ended
                if getattr(self, f"_strike_{self.kind}")():
                    self.struck = stage
        if self.struck and self.kind == "memory" and random.random() < 0.5:
            self._closed.wait(MEMORY_S)
            self._undo.close()

    def _has_come(self) -> bool:
        return (self._stages.ended if self._strike_time.at_end else self._stages.runs) >= self._strike_time.run

    def close(self) -> None:
        """The machine is well again when this returns."""
        self._closed.set()
        self.join()
        self._undo.close()

    def _strike_runner(self) -> bool:
        runner = _youngest(_is_runner)
        if runner is not None:
            os.kill(runner.pid, signal.SIGKILL)
        return runner is not None

    def _strike_box(self) -> bool:
        inside = _youngest()
        if inside is not None:
            os.kill(namespace_init(inside.pid), signal.SIGKILL)
        return inside is not None

    def _strike_keeper(self) -> bool:
        """It is a child of the keepers' parent, which is our child."""
        inside = _youngest()
        if inside is None:
            return False
        above = [one.pid for one in inside.parents()]
        os.kill(above[above.index(os.getpid()) - 2], signal.SIGKILL)
        return True

    def _strike_stalled(self) -> bool:
        runner = _youngest(_is_runner)
        if runner is None:
            return False
        runner.suspend()
        self._closed.wait(STALL_S)
        with contextlib.suppress(psutil.Error):
            runner.resume()  # it may have been killed at its limit
        return True

    def _strike_sandbox_full(self) -> bool:
        uppers = sorted(self._machine.disk.glob("*/*/upper"), key=lambda one: one.stat().st_ctime)
        if not uppers:
            return False
        with (uppers[-1] / "ballast").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, OVERFLOW_MIB << 20)
        return True

    def _strike_full(self) -> bool:
        ballast = Ballast(self._machine.disk)
        self._undo.callback(ballast.free)
        ballast.fill()
        return True

    def _strike_memory(self) -> bool:
        limit = self._machine.memory / "memory.limit_in_bytes"
        used = int((self._machine.memory / "memory.usage_in_bytes").read_text())
        self._undo.callback(limit.write_text, "-1")
        limit.write_text(str(used + (MEMORY_MIB << 20)))
        holder = subprocess.Popen([sys.executable, "-S", "-c", HOLDER, str(self._machine.memory)])
        self._undo.callback(holder.wait)
        self._undo.callback(holder.kill)
        time.sleep(0.2)
        return True

    def _strike_clock(self) -> bool:
        self._undo.callback(self._machine.clock.write_text, "+0")
        self._machine.clock.write_text(f"{random.choice(CLOCKS):+d}")
        return True

    def _strike_layer(self) -> bool:
        emptied = random.random() < 0.5
        place = self._layer / "fs" if emptied else self._layer
        away = place.with_name(f"{place.name}.away")
        mode = place.stat()
        self._undo.callback(away.rename, place)
        place.rename(away)
        if emptied:
            place.mkdir(mode=mode.st_mode & 0o777)
            os.chown(place, mode.st_uid, mode.st_gid)
            self._undo.callback(place.rmdir)
        return True


def _youngest(condition: Callable[[psutil.Process], bool] = lambda _: True) -> psutil.Process | None:
    """The youngest process in a sandbox of ours; None: there is none."""
    found = [one for one in _sandbox_processes() if condition(one)]
    return max(found, key=lambda one: one.pid, default=None)


def _sandbox_processes() -> list[psutil.Process]:
    """Processes below this one in other namespaces of processes."""
    own = namespace_of("self", "pid")
    below = psutil.Process().children(recursive=True)
    return [one for one in below if namespace_of(one.pid, "pid") not in ("", own)]


def _is_runner(process: psutil.Process) -> bool:
    try:
        return RUNNER in " ".join(process.cmdline())
    except psutil.Error:
        return False
