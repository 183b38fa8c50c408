"""Removes what dead owners left: processes, cgroups, containers, loop devices, folders. Never a living owner's.

Dead    its lock is free, and is held here meanwhile. Cgroups lie outside any home, so those of an owner without a
        folder here may belong to another home, or to a process of another pid namespace: they have a lock of their own.
        Free, they go, but not when they are so new that their lock may be on its way.
Later   a folder whose container engine does not answer stays until it does.
Blocks  bounded: call it in a thread.
"""

import fcntl
import logging
import os
from pathlib import Path
from typing import NamedTuple

from paddock.sandbox.cgroups import Cgroups
from paddock.sandbox.layers import remove_tree
from paddock.sandbox.owner import UNLOCKED_S, age_s, handle_of, owners, sandboxes, try_lock
from paddock.sandbox.runtimes import RUNTIMES

_LOOP_CLEAR = 0x4C01
_log = logging.getLogger(__name__)


class OwnerSweep(NamedTuple):
    """What was removed of one dead owner's."""

    owner_id: str
    removed: list[str]
    complete: bool
    """False: something could not be removed; the log says what."""


def sweep(home: Path, cgroups: Cgroups | None) -> list[OwnerSweep]:
    sweeps = []
    for folder in owners(home):
        with try_lock(folder) as dead:
            if dead:
                sweeps.append(_sweep_owner(folder, cgroups))
    here = {folder.name for folder in owners(home)}
    if cgroups is None:
        return sweeps
    for owner_id in cgroups.owners():
        if owner_id in here:
            continue
        with cgroups.try_lock(owner_id) as unlocked:
            if unlocked and not _is_new(owner_id, cgroups):
                sweeps.append(OwnerSweep(owner_id, ["cgroups"], cgroups.remove_owner(owner_id)))
    return sweeps


def _sweep_owner(folder: Path, cgroups: Cgroups | None) -> OwnerSweep:
    owner_id = folder.name.lstrip(".")
    removed = [f"sandbox {sandbox.name}" for sandbox in sandboxes(folder)]
    complete = True
    if cgroups and owner_id in cgroups.owners():
        removed.append("cgroups")
        complete = cgroups.remove_owner(owner_id)
    runtimes = {handle.runtime for sandbox in sandboxes(folder) if (handle := handle_of(sandbox))}
    try:
        for runtime in (make() for make in RUNTIMES if make.name in runtimes):
            removed += runtime.clean(owner_id)
        removed += _free_loops(folder)
        # Its lock last: nobody else is to begin with it meanwhile.
        for inside in folder.iterdir():
            if inside.name != "lock":
                remove_tree(inside)
        remove_tree(folder)
    except OSError as error:
        complete = False
        _log.warning("left by dead owner %s: %s", owner_id, error)
    return OwnerSweep(owner_id, removed, complete)


def _is_new(owner_id: str, cgroups: Cgroups) -> bool:
    return any(age_s(root / owner_id) < UNLOCKED_S for root in cgroups.roots if (root / owner_id).exists())


def _free_loops(folder: Path) -> list[str]:
    """Detach the loop devices over files of the folder."""
    freed = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        device = f"/dev/{backing.parent.parent.name}"
        try:
            if not Path(backing.read_text().strip()).is_relative_to(folder):
                continue
            fd = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.ioctl(fd, _LOOP_CLEAR)
            freed.append(device)
        finally:
            os.close(fd)
    return freed
