"""Looks at what sandboxes of a process take while they live: memory of their parts, and disk."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

LOOK_EVERY_S = 2.0


class SandboxMemory(NamedTuple):
    """Proportional shares (PSS) in MiB, of all sandboxes that a process made."""

    sandboxes: float = 0
    maker: float = 0.0
    """The process itself, and what it forks keepers from."""
    keepers: float = 0.0
    runners: float = 0.0
    """What holds the sandbox: the runtime, its first process, and the keeper's child that started both."""
    commands: float = 0.0

    def plus(self, other: "SandboxMemory") -> "SandboxMemory":
        return SandboxMemory(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def sandbox_memory(maker: psutil.Process) -> SandboxMemory:
    total = SandboxMemory(maker=_pss_mib(maker))
    with suppress(psutil.Error):
        for zygote in maker.children():
            total = total.plus(SandboxMemory(maker=_pss_mib(zygote)))
            for keeper in zygote.children():
                total = total.plus(_of_keeper(keeper))
    return total


def _of_keeper(keeper: psutil.Process) -> SandboxMemory:
    total = SandboxMemory(sandboxes=1, keepers=_pss_mib(keeper))
    with suppress(psutil.Error):
        for child in keeper.children():
            memory = sum(map(_pss_mib, (child, *child.children(recursive=True))))
            forked = child.cmdline() == keeper.cmdline()
            total = total.plus(SandboxMemory(runners=memory) if forked else SandboxMemory(commands=memory))
    return total


def _pss_mib(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        return float(process.memory_full_info().pss) / 2**20
    return 0.0


def disk_mib(*folders: Path) -> float:
    """Disk that folders take, without what is mounted in them; what they share counts once."""
    # Sandboxes end meanwhile: what is gone is not counted, and du says so by its exit status.
    command = ["du", "-skxc", *map(str, folders)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return int(done.stdout.splitlines()[-1].split()[0]) / 2**10


def cpu_s(root: psutil.Process) -> float:
    """CPU of a process and all below it, those that ended and were waited for too."""
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])
    return total


@contextmanager
def looking(look: Callable[[], None]) -> Iterator[None]:
    """Look every few seconds from a thread of its own until the block ends."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(LOOK_EVERY_S):
            look()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
