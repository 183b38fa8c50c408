"""Claims about the control groups of owners that are not of this home."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.sandbox.cgroups import Cgroups, find_cgroups, trees
from paddock.sandbox.failures import SandboxError
from paddock.sandbox.owner import UNLOCKED_S
from paddock.sandbox.records import SandboxLimits
from paddock.sandbox.sweep import sweep


@pytest.fixture
def cgroups() -> Cgroups:
    found = find_cgroups()
    if found is None:
        pytest.skip("no cgroup with a memory limit can be made here")
    return found


MAKE = """
import sys
from paddock.sandbox.cgroups import find_cgroups
from paddock.sandbox.records import SandboxLimits
find_cgroups().make(sys.argv[1], "one", SandboxLimits(memory_mib=64))
print("made", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def owner(cgroups: Cgroups) -> Iterator[str]:
    """As one of another pid namespace: its process id is here that of a process which has nothing to do with it."""
    name = f"1-{uuid.uuid4().hex[:8]}"
    yield name
    cgroups.remove_owner(name)


@pytest.fixture
def maker(owner: str) -> Iterator[subprocess.Popen[str]]:
    """Made the owner's group, in which nothing is."""
    command = [sys.executable, "-c", MAKE, owner]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "made\n"
        yield process
        process.kill()


def age(cgroups: Cgroups, owner: str) -> None:
    then = time.time() - 2 * UNLOCKED_S
    for root in cgroups.roots:
        os.utime(root / owner, (then, then))


def test_groups_without_a_lock_stay_while_they_are_new_and_go_when_they_are_old(
    cgroups: Cgroups, owner: str, maker: subprocess.Popen[str], tmp_path: Path
) -> None:
    maker.kill()
    maker.wait()
    sweep(tmp_path, cgroups)
    assert owner in cgroups.owners()
    age(cgroups, owner)
    sweep(tmp_path, cgroups)
    assert owner not in cgroups.owners()


def test_groups_of_who_lives_elsewhere_stay_though_nothing_is_in_them(
    cgroups: Cgroups, owner: str, maker: subprocess.Popen[str], tmp_path: Path
) -> None:
    age(cgroups, owner)
    sweep(tmp_path, cgroups)
    assert [folder.name for folder in (cgroups.roots[0] / owner).iterdir() if folder.is_dir()] == ["one"]


def test_an_owner_whose_folder_was_removed_has_the_lock_of_the_new_one(cgroups: Cgroups, owner: str) -> None:
    for _ in range(2):
        group = cgroups.make(owner, "one", SandboxLimits(memory_mib=64))
        with cgroups.try_lock(owner) as unlocked:
            assert not unlocked
        for folder in group.folders:
            folder.rmdir()
            folder.parent.rmdir()
    cgroups.make(owner, "two", SandboxLimits(memory_mib=64))
    assert cgroups.remove_owner(owner)
    with cgroups.try_lock(owner) as unlocked:
        assert unlocked


def test_a_lock_that_somebody_keeps_is_not_waited_for_without_end(
    cgroups: Cgroups, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "LOCK_TIMEOUT_S", 0.1)
    folder = cgroups.roots[0] / owner
    folder.mkdir()
    with cgroups.try_lock(owner) as unlocked:
        assert unlocked
        with pytest.raises(SandboxError, match="somebody else holds its lock"):
            cgroups.make(owner, "one", SandboxLimits())
    cgroups.make(owner, "one", SandboxLimits())
