"""The cgroups of this machine where we may make any, and a kernel that is scripted for version 2."""

import errno
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from paddock.sandbox.cgroups import CgroupKernel, Cgroups, find_cgroups


class ScriptedKernel(CgroupKernel):
    """Version 2 as the kernel documents it, on plain files: which files a new cgroup has, and what is refused."""

    def __init__(self, *, top: Path) -> None:
        self.top = top
        """The cgroup that may hold processes and pass controllers down."""
        self.refuse_entry = False

    def mkdir(self, folder: Path) -> None:
        folder.mkdir()
        given = self._words(folder.parent / "cgroup.subtree_control")
        self.fill(folder, given)

    def fill(self, folder: Path, controllers: list[str]) -> None:
        files = {"cgroup.procs": "", "cgroup.controllers": " ".join(controllers), "cgroup.subtree_control": ""}
        files |= {"cgroup.events": "populated 0\nfrozen 0\n", "cgroup.freeze": "0", "cgroup.kill": ""}
        files |= {"cpu.stat": "usage_usec 1500000\nuser_usec 1000000\n"}
        if "memory" in controllers:
            files |= {"memory.max": "max", "memory.swap.max": "max", "memory.swap.current": "4096\n"}
            files |= {"memory.stat": "anon 1048576\nfile 99999999\nkernel 5\nshmem 2048\nfile_mapped 7\n"}
            files |= {"memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 0\n"}
        if "cpu" in controllers:
            files |= {"cpu.weight": "100\n"}
        if "pids" in controllers:
            files |= {"pids.max": "max", "pids.current": "2\n", "pids.events": "max 0\n"}
        for name, text in files.items():
            (folder / name).write_text(text)

    def rmdir(self, folder: Path) -> None:
        if not folder.exists():
            raise FileNotFoundError(errno.ENOENT, "no such cgroup", str(folder))
        if any(entry.is_dir() for entry in folder.iterdir()) or self._words(folder / "cgroup.procs"):
            raise OSError(errno.EBUSY, "busy", str(folder))
        for entry in folder.iterdir():
            entry.unlink()
        folder.rmdir()

    def write(self, file: Path, text: str) -> None:
        if not file.exists():
            raise FileNotFoundError(errno.ENOENT, "no such file", str(file))
        folder = file.parent
        if file.name == "cgroup.subtree_control":
            self._pass_down(folder, text)
        elif file.name == "cgroup.kill":
            (folder / "cgroup.procs").write_text("")
        else:
            file.write_text(text)
            if file.name == "cgroup.freeze":
                (folder / "cgroup.events").write_text(f"populated 1\nfrozen {text}\n")

    def enter(self, procs_file: Path) -> None:
        if self.refuse_entry:
            raise PermissionError(errno.EACCES, "refused", str(procs_file))
        if self._words(procs_file.parent / "cgroup.subtree_control"):
            raise OSError(errno.EBUSY, "it has children with controllers", str(procs_file))

    def _pass_down(self, folder: Path, text: str) -> None:
        if folder != self.top and self._words(folder / "cgroup.procs"):
            raise OSError(errno.EBUSY, "it holds processes", str(folder))
        wanted = [word.removeprefix("+") for word in text.split()]
        if not set(wanted) <= set(self._words(folder / "cgroup.controllers")):
            raise FileNotFoundError(errno.ENOENT, "no such controller", str(folder))
        given = self._words(folder / "cgroup.subtree_control")
        (folder / "cgroup.subtree_control").write_text(" ".join(sorted({*given, *wanted})))

    def _words(self, file: Path) -> list[str]:
        return file.read_text().split() if file.exists() else []


class Unified(NamedTuple):
    """A scripted tree of version 2."""

    kernel: ScriptedKernel
    mount: Path
    proc: Path

    def find(self) -> Cgroups | None:
        return find_cgroups(self.kernel, proc=self.proc)

    def child(self, path: str, controllers: str = "cpu memory pids") -> Path:
        folder = self.mount / path
        folder.mkdir(parents=True)
        self.kernel.fill(folder, controllers.split())
        return folder


@pytest.fixture
def unified(tmp_path: Path) -> Callable[..., Unified]:
    """`unified(own="/a/b", controllers="...")`: a mount whose root has the controllers, and who we are in it."""

    def make(*, own: str = "/", controllers: str = "cpu memory pids") -> Unified:
        mount, proc = tmp_path / "cg roup", tmp_path / "proc"
        mount.mkdir()
        proc.mkdir()
        point = str(mount).replace(" ", "\\040")
        (proc / "mountinfo").write_text(f"30 20 0:27 / {point} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n")
        (proc / "cgroup").write_text(f"1:name=systemd:/elsewhere\n0::{own}\n")
        kernel = ScriptedKernel(top=mount)
        kernel.fill(mount, controllers.split())
        return Unified(kernel, mount, proc)

    return make


@pytest.fixture(scope="session")
def here() -> Cgroups:
    found = find_cgroups()
    if found is None:
        pytest.skip("no cgroup with a memory limit can be made here (version 1 needs root, version 2 delegation)")
    return found


@pytest.fixture
def owner(here: Cgroups) -> Iterator[str]:
    """An owner of this test's own; its groups are gone at the end."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    yield name
    here.remove_owner(name)
