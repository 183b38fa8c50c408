"""Starting what is measured, and stopping it again; counting its processes and memory, or this one's."""

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

START_TIMEOUT_S = 60.0


class Footprint(NamedTuple):
    processes: int
    rss_mib: float


@contextmanager
def running(command: Sequence[str], *health: str) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m COMMAND` until the block ends; entered when every URL of `health` answers."""
    process = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.DEVNULL)
    try:
        for url in health:
            wait_for(url, process)
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    due = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < due:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.HTTPError:
            return  # it answers, if only that there is no such page
        except OSError:
            time.sleep(0.005)
    raise RuntimeError(f"{url} did not answer in {START_TIMEOUT_S} s")


def footprint(pid: int) -> Footprint:
    """What a process and all its descendants use."""
    root = psutil.Process(pid)
    family = [root, *root.children(recursive=True)]
    return Footprint(len(family), sum(member.memory_info().rss for member in family) / 2**20)


def peak_mib() -> float:
    """The most resident memory that this process had."""
    # What getrusage says includes this process's parent, as it was before the program began.
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return int(peak) / 2**10


def family(pid: int) -> list[int]:
    root = psutil.Process(pid)
    return [pid, *(child.pid for child in root.children(recursive=True))]


def family_cpu_s() -> float:
    """CPU seconds of this process and of what it started, ended or not."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
