"""What a hostile sandbox leaves is read in bounded time and memory, and each oddity has a clear result."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.sandbox.failures import BudgetExceeded, SandboxError
from paddock.sandbox.layers import OmittedPath, PatchLimits, copy_upper, disk_use
from paddock.sandbox.layers.patches import MOST_NAMED

if TYPE_CHECKING:
    from tests.sandbox.layers.conftest import LayerWorld

pytestmark = pytest.mark.sandbox
ODD = r"""
cd testbed; truncate -s 3T sparse; mkfifo fifo; ln base hard
printf x >"$(printf 'a\nb')"; printf x >'c 1 3'; printf x >con
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
"""
DEEP = """
cd testbed; python3 -c '
import os
for level in range({levels}):
    os.mkdir("d"); os.chdir("d")
'
"""
MANY = "cd testbed; python3 -c 'for number in range({count}): open(str(number), \"w\").close()'"


@pytest.fixture
def base(world: "LayerWorld") -> "LayerWorld":
    world.image("mkdir testbed; echo one >testbed/base")
    return world


@pytest.fixture
def place(base: "LayerWorld") -> Path:
    """That the layer's owner can write to."""
    folder = base.home / "copies"
    folder.mkdir()
    folder.chmod(0o777)
    return folder / "copy"


def test_oddities_are_listed_left_out_and_copied_as_they_are(base: "LayerWorld", place: Path) -> None:
    base.run(ODD)
    changed = {one.path.removeprefix("/testbed/"): (one.kind, one.type) for one in base.view.changes()}
    assert changed == {
        "sparse": ("added", "file"),
        "fifo": ("added", "other"),
        "socket": ("added", "other"),
        "hard": ("added", "file"),
        "a\nb": ("added", "file"),
        "c 1 3": ("added", "file"),
        "con": ("added", "file"),
    }
    made = base.patch()
    assert {(one.path, one.reason) for one in made.left_out} == {
        ("sparse", "file_too_large"),
        ("fifo", "special"),
        ("socket", "special"),
    }
    assert b"sparse" not in made.data and b"b/hard" in made.data and rb"a\nb" in made.data
    copy_upper(base.upper, place)
    assert (place / "testbed/sparse").stat().st_size == 3 << 40
    assert disk_use(place) < 1 << 20


def test_a_patch_holds_so_many_files_and_names_the_rest(base: "LayerWorld") -> None:
    base.run("cd testbed; for i in 1 2 3 4 5; do echo $i >f$i; done")
    made = base.patch(limits=PatchLimits(files=3))
    assert made.data.count(b"diff --git") == 3
    assert made.left_out == [OmittedPath(path=f"f{i}", reason="patch_too_large", size_bytes=2) for i in (4, 5)]


def test_paths_whose_names_are_too_much_are_left_out(base: "LayerWorld") -> None:
    base.run("cd testbed; for i in 1 2 3 4 5; do echo $i >f$i; done; echo two >base")
    made = base.patch(limits=PatchLimits(names_mib=9 / 2**20))
    assert made.data.count(b"diff --git") == 3
    assert [one.path for one in made.left_out] == ["f3", "f4", "f5"]
    assert {one.reason for one in made.left_out} == {"patch_too_large"}


def test_what_a_patch_lacks_is_named_so_often_and_then_counted(base: "LayerWorld") -> None:
    base.run(MANY.format(count=MOST_NAMED + 20))
    made = base.patch(limits=PatchLimits(files=5))
    assert (len(made.left_out), made.left_out_more) == (MOST_NAMED, 15)


def test_a_list_of_changes_without_end_is_the_policys_own(base: "LayerWorld") -> None:
    base.run("cd testbed; for i in 1 2 3 4 5; do echo $i >f$i; done")
    assert len(base.view.changes(most_bytes=60)) == 5
    with pytest.raises(BudgetExceeded, match="too long to be listed") as raised:
        base.view.changes(most_bytes=50)
    assert raised.value.budget == "disk"


@pytest.mark.long
def test_thousands_of_levels_are_cut(base: "LayerWorld", place: Path) -> None:
    base.run(DEEP.format(levels=3000))
    assert len(base.view.changes()) <= 201
    assert {one.reason for one in base.patch().left_out} == {"too_deep"}
    try:
        copy_upper(base.upper, place)
    except SandboxError as error:
        assert "copying a layer failed" in error.message
        assert not place.exists()


@pytest.mark.long
def test_tens_of_thousands_of_files_are_read_and_copied(base: "LayerWorld", place: Path) -> None:
    base.run(MANY.format(count=40_000))
    assert len(base.view.changes()) == 40_000
    made = base.patch(limits=PatchLimits(files=10_000))
    assert made.data.count(b"diff --git") == 10_000
    assert (len(made.left_out), made.left_out_more) == (MOST_NAMED, 30_000 - MOST_NAMED)
    copy_upper(base.upper, place)
    assert len(list((place / "testbed").iterdir())) == 40_000
