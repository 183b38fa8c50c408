"""Finds the control groups that this machine offers, by making one and entering it.

v2 is taken where it has both memory and pids; else v1, which needs memory. Either takes cpu where it is, v1 pids,
cpuacct and freezer too. A controller that is mounted but refuses us is as good as absent.
"""

import contextlib
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from paddock.sandbox.cgroups.group import Controller
from paddock.sandbox.cgroups.kernel import CgroupKernel, read_text
from paddock.sandbox.cgroups.trees import FOLDER, REQUIRED_CONTROLLERS, Cgroups, V1Cgroups, V2Cgroups, pass_down
from paddock.sandbox.failures import SandboxError
from paddock.sandbox.records import SandboxLimits

V1_CONTROLLERS: tuple[Controller, ...] = ("memory", "pids", "cpu", "cpuacct", "freezer")


class CgroupMount(NamedTuple):
    """A mounted cgroup hierarchy, as `mountinfo` lists it."""

    root: str
    """The part of the hierarchy that is mounted."""
    point: Path
    kind: str
    options: list[str]


def find_cgroups(kernel: CgroupKernel | None = None, *, proc: Path = Path("/proc/self")) -> Cgroups | None:
    """None: no process of ours can be put under a memory limit here."""
    kernel = kernel or CgroupKernel()
    mounts = _mounts(read_text(proc / "mountinfo"))
    for cgroups in (*_v2(mounts, proc, kernel), *_v1(mounts, kernel)):
        if _works(cgroups, kernel):
            return cgroups
    return None


def _v2(mounts: list[CgroupMount], proc: Path, kernel: CgroupKernel) -> Iterator[Cgroups]:
    for mount in mounts:
        if mount.kind != "cgroup2":
            continue
        for base in _lineage(mount, read_text(proc / "cgroup")):
            if set(REQUIRED_CONTROLLERS) <= set(read_text(base / "cgroup.controllers").split()) and os.access(
                base, os.W_OK
            ):
                with contextlib.suppress(OSError):
                    pass_down(base, kernel)
                    yield V2Cgroups(base, kernel)


def _lineage(mount: CgroupMount, own: str) -> list[Path]:
    """The mount point and each cgroup below it down to our own, highest first."""
    path = next((line[3:] for line in own.splitlines() if line.startswith("0::")), "/")
    root = mount.root.rstrip("/")
    inner = path[len(root) :] if path.startswith(root + "/") else ""
    parts = [part for part in inner.split("/") if part]
    if ".." in parts:
        parts = []
    return [mount.point.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]


def _v1(mounts: list[CgroupMount], kernel: CgroupKernel) -> Iterator[Cgroups]:
    points: dict[Controller, Path] = {}
    for name in V1_CONTROLLERS:
        for mount in mounts:
            if mount.kind == "cgroup" and name in mount.options and _may_make(mount.point, kernel):
                points.setdefault(name, mount.point)
    if "memory" in points:
        yield V1Cgroups(points, kernel)


def _may_make(point: Path, kernel: CgroupKernel) -> bool:
    """Our folder is there, or can be made; it stays: another process may be about to use it."""
    try:
        kernel.mkdir(point / FOLDER)
    except FileExistsError:
        return os.access(point / FOLDER, os.W_OK)
    except OSError:
        return False
    return True


def _works(cgroups: Cgroups, kernel: CgroupKernel) -> bool:
    """A group with limits can be made, entered and removed. Its owner's name starts with a dot: no owner."""
    owner = f".trial-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    try:
        group = cgroups.make(owner, "trial", SandboxLimits())
    except SandboxError:
        return False
    try:
        for file in group.procs_files:
            kernel.enter(file)
        group.memory()
        group.pids()
    except OSError:
        return False
    finally:
        group.remove(timeout_s=1.0)
        cgroups.remove_owner(owner, timeout_s=1.0)
    return True


def _mounts(mountinfo: str) -> list[CgroupMount]:
    mounts = []
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        before, after = left.split(), right.split()
        if len(before) >= 5 and len(after) >= 3 and after[0] in ("cgroup", "cgroup2"):
            mounts.append(CgroupMount(before[3], Path(_unescape(before[4])), after[0], after[2].split(",")))
    return mounts


def _unescape(path: str) -> str:
    """A path of mountinfo without its octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)
