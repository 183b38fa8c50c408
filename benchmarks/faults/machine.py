"""A small machine for a campaign, made of this one: a disk, a memory and a clock that faults may use up or turn.

Made    by running the campaign again in a mount namespace of its own. There `PADDOCK_HOME/state` is a tmpfs, and the
        mount of the cgroups of memory shows one group that holds all sandboxes as if it were the whole; libfaketime
        turns the clock (not the monotonic one) of the campaign's process, nobody else's.
Needs   root, cgroups v1 with memory, `apt install faketime`; a home that nobody else uses meanwhile.
Units   MiB where a name says so.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.faults.disks import small_disk
from paddock.sandbox.owner import state_folder

CLOCK = "TURNED_CLOCK_FILE"
DISK_MIB = 512
END_S = 5.0
"""For the processes of a closed provider to leave their groups."""
GROUPS = Path("/sys/fs/cgroup/memory")


class SmallMachine(NamedTuple):
    home: Path
    memory: Path
    """The group of memory that holds all sandboxes."""
    clock: Path
    """A file with the seconds by which the clock is wrong, with their sign."""

    @property
    def disk(self) -> Path:
        return state_folder(self.home)


def enter(words: list[str]) -> None:
    """Become the same campaign on a small machine; return where this process is on one already."""
    if CLOCK in os.environ:
        return
    if os.geteuid() != 0 or not (GROUPS / "memory.limit_in_bytes").exists():
        raise SystemExit("faults grading needs root and cgroups v1 with memory")
    folder = Path(tempfile.mkdtemp(prefix="clock-"))
    shifted, preloaded = folder / "turned", folder / "clock.so"
    shifted.write_text("+0")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", str(preloaded), str(Path(__file__).with_name("clock.c"))], check=True
    )
    env = {CLOCK: str(shifted), "LD_PRELOAD": str(preloaded)}
    argv = ["unshare", "--mount", "--propagation", "private", "--", sys.executable, "-m", "benchmarks", *words]
    os.execvpe(argv[0], argv, {**os.environ, **env})


@contextmanager
def small_machine(home: Path) -> Iterator[SmallMachine]:
    """The machine that this process is on."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what is made here is removed
    machine = SmallMachine(home, GROUPS, Path(os.environ[CLOCK]))
    group = GROUPS / f"faults-{os.getpid()}"
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, machine.clock.parent)
        group.mkdir()
        undo.callback(_remove, group)
        undo.enter_context(_show_as_all(group))
        undo.enter_context(small_disk(machine.disk, DISK_MIB))
        yield machine


@contextmanager
def _show_as_all(group: Path) -> Iterator[None]:
    """A group in the place of all."""
    subprocess.run(["mount", "--bind", str(group), str(GROUPS)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(GROUPS)], check=True)


def _remove(group: Path) -> None:
    """A group and those below it, as soon as they are empty."""
    end = time.monotonic() + END_S
    while group.exists() and time.monotonic() < end:
        for folder in sorted((one for one in (group, *group.rglob("*")) if one.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
        time.sleep(0.05)
