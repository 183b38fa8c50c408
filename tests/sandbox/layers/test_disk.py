"""Disk use counts what is allocated, whatever its modes; removal ends with nothing, whatever was there."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from paddock.sandbox.layers import disk_use, remove_tree

if TYPE_CHECKING:
    from tests.sandbox.layers.conftest import LayerWorld

pytestmark = pytest.mark.sandbox
AsPayload = Callable[[Callable[[], Any]], Any]

DEEP = "/usr/bin/python3 -c \"import os\nfor n in range(1500): os.mkdir('n'); os.chdir('n')\nopen('f', 'w')\""


@pytest.fixture(params=["root", "payload"])
def anybody(request: pytest.FixtureRequest, as_payload: AsPayload) -> AsPayload:
    """Root, and the layers' owner."""
    if request.param == "payload":
        return as_payload
    if os.geteuid():
        pytest.skip("needs root")
    return lambda function: function()


def test_use_is_what_is_allocated(world: "LayerWorld", anybody: AsPayload) -> None:
    world.image("head -c 9M /dev/zero >old")
    before = anybody(lambda: disk_use(world.upper))
    world.run(
        "mkdir shut; head -c 2M /dev/zero >shut/a; ln shut/a b; head -c 1M /dev/zero >c; chmod 000 c shut;"
        "truncate -s 1T sparse; rm old; ln -s /usr link"
    )
    grown = anybody(lambda: disk_use(world.upper)) - before
    assert 3 << 20 <= grown < (3 << 20) + (128 << 10)


@pytest.mark.slow
def test_removal_takes_any_mode_kind_and_depth(world: "LayerWorld", anybody: AsPayload) -> None:
    outside = world.home / "outside"
    outside.mkdir(mode=0o777)
    (outside / "precious").touch()
    world.image("mkdir d; echo 1 >d/f")
    world.run(
        f"rm -rf d; mkfifo fifo; ln -s {outside} link; ln -s / root; mkdir -p shut/in/deep; echo 1 >shut/in/f;"
        f"chmod 000 shut/in shut; mkdir ro; echo 1 >ro/f; chmod 555 ro; mkdir deep; cd deep; {DEEP}"
    )
    victim = world.upper
    world.home.chmod(0o777)
    anybody(lambda: remove_tree(victim))
    assert not victim.exists()
    assert (outside / "precious").exists()


def test_the_kernels_own_work_folder_goes_too(world: "LayerWorld", anybody: AsPayload) -> None:
    world.run("echo 1 >f")
    work = world.home / "work"
    assert (work / "work").is_dir()
    world.home.chmod(0o777)
    anybody(lambda: remove_tree(work))
    assert not work.exists()


def test_removal_of_nothing_of_a_file_and_of_a_link(home: Path) -> None:
    (home / "file").touch()
    (home / "folder").mkdir()
    (home / "folder" / "kept").touch()
    (home / "link").symlink_to(home / "folder")
    for name in ("none", "file", "link"):
        remove_tree(home / name)
    assert sorted(path.name for path in home.iterdir()) == ["folder"]
    assert (home / "folder" / "kept").exists()


def test_names_like_those_that_removal_gives_do_not_hinder_it(home: Path) -> None:
    for name in ("t/0/0/0", "t/1/0", "t/.0/0"):
        (home / name).mkdir(parents=True)
    remove_tree(home / "t")
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("folders", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_hundred_thousand_files_go_in_seconds(home: Path, folders: int) -> None:
    """In the default suite, a tenth of them."""
    for folder in range(folders):
        made = home / "t" / str(folder)
        made.mkdir(parents=True)
        first = made / "first"
        first.touch()
        for number in range(5000):
            os.link(first, made / str(number))
    began = time.process_time()
    remove_tree(home / "t")
    assert time.process_time() - began < 1 + folders / 2
    assert not (home / "t").exists()
