"""Real pid namespaces to watch, with a shell in each that takes lines."""

import contextlib
import os
import select
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.sandbox.cgroups import Cgroup, find_cgroups
from paddock.sandbox.processes import started_at
from paddock.sandbox.records import MemoryKill, SandboxLimits
from paddock.sandbox.watchdog import WatchedSandbox

PYTHON = f"{sys.executable} -S -c"
WAIT_S = 60.0


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Space:
    """Processes in a pid namespace of their own, with a `/dev/shm` of their own."""

    def __init__(self, cgroup_files: list[Path]) -> None:
        argv = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", "/dev/shm", "--unshare-pid", "--proc", "/proc"]
        argv += ["--die-with-parent", "/bin/sh"]
        enter = "".join(f"echo 0 > {path}; " for path in cgroup_files)
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", f'{enter}exec "$@"', "sh", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.say("up")
        self.pid = _children(self._process.pid)[0]
        """The first process of the namespace."""
        self.shell = _children(self.pid)[0]

    def below(self) -> list[int]:
        """Children of the shell."""
        return _children(self.shell)

    def do(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def say(self, word: str) -> None:
        """Return when the shell has answered: it lives, and has done all lines so far."""
        self.do(f"echo {word}")
        self.hear(word)

    def hear(self, word: str) -> None:
        """Return when that line comes out."""
        out = self._process.stdout
        assert out
        heard = b""
        while f"{word}\n".encode() not in heard:
            assert select.select([out], [], [], WAIT_S)[0], f"{word!r} was not said"
            chunk = os.read(out.fileno(), 4096)
            assert chunk, "the shell has ended"
            heard += chunk

    def python(self, code: str, *, background: bool = True) -> None:
        self.do(f"{PYTHON} '{code}' {'&' if background else ''}")

    def hold(self, mib: int, *, then: str = "import time; time.sleep(60)") -> None:
        """A process that has so much memory and keeps it; returns when it has."""
        self.python(f'block = bytearray(b"x") * ({mib} << 20); print("held", flush=True); {then}')
        self.hear("held")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        eventually(lambda: started_at(self.pid) is None)


class WatchdogEvents:
    """What a watchdog has told of one sandbox."""

    def __init__(self) -> None:
        self.killed: list[MemoryKill] = []
        self.exhausted: list[tuple[str, str]] = []
        self.lost: list[Exception] = []

    def watched(self, space: Space, limits: SandboxLimits, **fields: Any) -> WatchedSandbox:
        return WatchedSandbox(
            sandbox_id=fields.pop("sandbox_id", "one"),
            limits=limits,
            pid=space.pid,
            on_killed=self.killed.append,
            on_exhausted=lambda budget, message: self.exhausted.append((budget, message)),
            on_lost=self.lost.append,
            **fields,
        )


def eventually(claim: Callable[[], Any]) -> Any:
    """Wait until it holds."""
    due = time.monotonic() + WAIT_S
    while not (found := claim()):
        assert time.monotonic() < due, "it did not come true"
        time.sleep(0.01)
    return found


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    return eventually


@pytest.fixture
def told() -> WatchdogEvents:
    return WatchdogEvents()


@pytest.fixture
def make_space() -> Iterator[Callable[..., Space]]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap (bwrap) is not installed")
    made: list[Space] = []

    def make(cgroup_files: list[Path] | None = None) -> Space:
        made.append(Space(cgroup_files or []))
        return made[-1]

    yield make
    for space in made:
        space.end()


@pytest.fixture
def make_cgroup() -> Iterator[Callable[..., Cgroup]]:
    cgroups = find_cgroups()
    if cgroups is None:
        pytest.skip("no cgroup with a memory limit can be made here (version 1 needs root, version 2 delegation)")
    owner = f"test-{uuid.uuid4().hex[:8]}"
    yield lambda limits, name="one": cgroups.make(owner, name, limits)
    assert cgroups.remove_owner(owner)


@pytest.fixture
def space(make_space: Callable[..., Space]) -> Space:
    return make_space()


@pytest.fixture
def descriptors() -> Callable[[], list[str]]:
    """What this process has open: files, and namespaces as `pid:[inode]`."""

    def links() -> list[str]:
        found = []
        for path in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(str(path.readlink()))
        return sorted(found)

    return links
