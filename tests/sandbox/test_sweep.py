"""Claims about the control groups of owners that are not of this home."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.sandbox.cgroups import Cgroups, find_cgroups
from paddock.sandbox.owner import UNLOCKED_S
from paddock.sandbox.records import SandboxLimits
from paddock.sandbox.sweep import sweep


@pytest.fixture
def cgroups() -> Cgroups:
    found = find_cgroups()
    if found is None:
        pytest.skip("no cgroup with a memory limit can be made here")
    return found


@pytest.fixture
def owner(cgroups: Cgroups) -> Iterator[str]:
    """Of a process that can't be seen, as one of another pid namespace."""
    with subprocess.Popen(["true"]) as process:
        name = f"{process.pid}-ofatest"
    yield name
    cgroups.remove_owner(name)


def test_a_group_that_waits_for_its_first_process_stays_and_an_old_empty_one_goes(
    cgroups: Cgroups, owner: str, tmp_path: Path
) -> None:
    group = cgroups.make(owner, "one", SandboxLimits(memory_mib=64))
    sweep(tmp_path, cgroups)
    assert owner in cgroups.owners()
    then = time.time() - 2 * UNLOCKED_S
    for folder in group.folders:
        os.utime(folder, (then, then))
        os.utime(folder.parent, (then, then))
    sweep(tmp_path, cgroups)
    assert owner not in cgroups.owners()
