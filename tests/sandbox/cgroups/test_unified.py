"""Version 2, on a scripted tree that refuses what the kernel refuses."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.records import SandboxLimits

MIB = 2**20
Make = Callable[..., Any]
OURS = "paddock/owner/one"


def test_limits_are_written_and_swap_is_barred(unified: Make) -> None:
    tree = unified()
    group = tree.find().make("owner", "one", SandboxLimits(memory_mib=100, pids=50))
    folder = tree.mount / OURS
    assert group.procs_files == [folder / "cgroup.procs"]
    written = [(folder / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max")]
    assert written == [str(100 * MIB), "0", "50"]


def test_no_limit_is_max(unified: Make) -> None:
    tree = unified()
    tree.find().make("owner", "one", SandboxLimits(memory_mib=None, pids=None))
    folder = tree.mount / OURS
    assert [(folder / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max")] == ["max"] * 3


def test_all_sandboxes_weigh_as_much_as_one_process_on_each_processor(unified: Make) -> None:
    tree = unified()
    groups = tree.find()
    for name in ("one", "two"):
        groups.make("owner", name, SandboxLimits())
    groups.make("other", "three", SandboxLimits())
    weights = [tree.mount / folder / "cpu.weight" for folder in ("paddock", "paddock/owner", "paddock/other", OURS)]
    assert [int(file.read_text()) for file in weights] == [100 * (os.cpu_count() or 1), 200, 100, 100]


def test_without_the_processors_controller_the_rest_is_used(unified: Make) -> None:
    tree = unified(controllers="memory pids")
    assert tree.find().make("owner", "one", SandboxLimits()).pids() == 2


def test_figures_leave_page_cache_out(unified: Make) -> None:
    group = unified().find().make("owner", "one", SandboxLimits())
    assert group.memory() == 1048576 + 2048 + 4096 == group.peak
    assert (group.pids(), group.cpu_s(), group.oom_kills()) == (2, 1.5, 0)
    (group.folders[0] / "memory.events").write_text("low 0\noom 1\noom_kill 4\n")
    (group.folders[0] / "memory.stat").write_text("anon 1\nshmem 1\n")
    (group.folders[0] / "pids.events").write_text("max 3\n")
    assert (group.oom_kills(), group.limit_hits(), group.pids_refused()) == (4, 1, 3)
    assert (group.memory(), group.peak) == (4098, 1048576 + 2048 + 4096)


def test_freezing_waits_for_the_event(unified: Make) -> None:
    group = unified().find().make("owner", "one", SandboxLimits())
    assert group.freeze()
    assert (group.folders[0] / "cgroup.freeze").read_text() == "1"
    group.thaw()
    assert (group.folders[0] / "cgroup.freeze").read_text() == "0"


def test_one_write_kills_all(unified: Make) -> None:
    group = unified().find().make("owner", "one", SandboxLimits())
    (group.folders[0] / "cgroup.procs").write_text("4194305\n4194306\n")
    assert not group.remove(timeout_s=0.02)
    assert group.kill_all() and group.remove()
    assert not group.folders[0].exists()


def test_the_highest_cgroup_that_is_ours_is_taken(unified: Make) -> None:
    """A user under systemd: the root is not ours, `user@1000` is delegated and passes its controllers down."""
    tree = unified(own="/user.slice/user@1000/app.scope", controllers="cpu")
    tree.child("user.slice", "cpu")
    tree.child("user.slice/user@1000", "cpu memory pids")
    tree.child("user.slice/user@1000/app.scope", "memory pids")
    found = tree.find()
    assert found and found.roots == (tree.mount / "user.slice/user@1000/paddock",)
    assert "v2" in found.describe()


def test_a_cgroup_that_holds_processes_can_pass_nothing_down(unified: Make) -> None:
    tree = unified(own="/app", controllers="cpu")
    (tree.child("app") / "cgroup.procs").write_text("4194305\n")
    assert tree.find() is None
    assert not (tree.mount / "app/paddock").exists()


@pytest.mark.parametrize("controllers", ["", "cpu hugetlb", "memory cpu", "pids"])
def test_without_both_controllers_there_is_nothing(unified: Make, controllers: str) -> None:
    assert unified(controllers=controllers).find() is None


def test_where_no_process_may_enter_there_is_nothing(unified: Make) -> None:
    tree = unified()
    tree.kernel.refuse_entry = True
    assert tree.find() is None


def test_a_trial_leaves_no_owner(unified: Make) -> None:
    tree = unified()
    assert tree.find().owners() == []
    assert [path.name for path in (tree.mount / "paddock").iterdir() if path.is_dir()] == []


def test_owners_are_told_apart(unified: Make) -> None:
    cgroups = unified().find()
    for owner in ("a", "b"):
        for name in ("one", "two"):
            cgroups.make(owner, name, SandboxLimits())
    assert cgroups.owners() == ["a", "b"]
    assert cgroups.remove_owner("a")
    assert cgroups.owners() == ["b"]
    assert sorted(path.name for path in (cgroups.roots[0] / "b").iterdir() if path.is_dir()) == ["one", "two"]


def test_a_refused_group_leaves_nothing(unified: Make) -> None:
    tree = unified()
    cgroups = tree.find()
    (tree.mount / "paddock" / "cgroup.controllers").write_text("cpu")
    (tree.mount / "paddock" / "cgroup.subtree_control").write_text("")
    with pytest.raises(SandboxError, match="no cgroup for sandbox one"):
        cgroups.make("owner", "one", SandboxLimits())
    assert cgroups.owners() == []


def test_a_machine_without_cgroups_has_none(tmp_path: Path, unified: Make) -> None:
    tree = unified()
    (tree.proc / "mountinfo").write_text("25 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
    assert tree.find() is None
