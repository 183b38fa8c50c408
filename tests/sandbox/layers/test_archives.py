"""What an archive of a sandbox's paths holds, against what the kernel shows of the same tree."""

import gc
import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from paddock.sandbox.layers import Archive, archive

if TYPE_CHECKING:
    from tests.sandbox.layers.conftest import LayerWorld

pytestmark = pytest.mark.sandbox

IMAGE = "mkdir -p d/sub e; echo f >d/f; echo g >d/sub/g; echo e >e/e; ln -s d link; echo run >d/run; chmod 755 d/run"
PLENTY = 1 << 20


def entries(made: Archive) -> dict[str, object]:
    """Contents of files, targets of links, None for folders; by path."""
    found: dict[str, object] = {}
    with tarfile.open(fileobj=io.BytesIO(made.data)) as tar:
        for info in tar:
            file = tar.extractfile(info) if info.isfile() else None
            found[info.name] = file.read().decode() if file else (info.linkname if info.issym() else None)
    return found


def test_an_archive_has_the_merged_tree(world: "LayerWorld") -> None:
    world.image(IMAGE)
    world.run("echo new >d/new; rm d/sub/g; echo changed >d/f; ln -s /etc/x d/out; mkdir d/empty")
    made = archive(world.view, ["/d", "/nothing", "/d/f"], max_bytes=PLENTY)
    assert entries(made) == {
        "d": None,
        "d/empty": None,
        "d/f": "changed\n",
        "d/new": "new\n",
        "d/out": "/etc/x",
        "d/run": "run\n",
        "d/sub": None,
    }
    assert (made.missing, made.left_out, made.too_large) == (["/nothing"], 0, False)


def test_modes_travel_and_owners_and_times_do_not(world: "LayerWorld") -> None:
    world.image(IMAGE)
    one = archive(world.view, ["/d"], max_bytes=PLENTY)
    with tarfile.open(fileobj=io.BytesIO(one.data)) as tar:
        infos = {info.name: info for info in tar}
    assert {infos["d/run"].mode, infos["d/f"].mode} == {0o755, 0o644}
    assert {(info.uid, info.uname, info.mtime) for info in infos.values()} == {(0, "", 0)}
    world.run("touch -d 2001-01-01 d/f d")
    assert archive(world.view, ["/d"], max_bytes=PLENTY).data == one.data


def test_a_link_above_a_path_is_followed_and_one_that_is_asked_for_travels(world: "LayerWorld") -> None:
    world.image(IMAGE)
    made = archive(world.view, ["/link/f", "/link"], max_bytes=PLENTY)
    assert entries(made) == {"link/f": "f\n", "link": "d"}


def test_patterns_stay_behind(world: "LayerWorld") -> None:
    world.image(IMAGE)
    assert set(entries(archive(world.view, ["/d"], exclude=["su*", "/d/r*"], max_bytes=PLENTY))) == {"d", "d/f"}


def test_special_files_are_left_out_and_counted(world: "LayerWorld") -> None:
    world.image(IMAGE)
    world.run("mkfifo d/fifo")
    made = archive(world.view, ["/d"], max_bytes=PLENTY)
    assert (made.left_out, "d/fifo" in entries(made)) == (1, False)


def test_more_than_the_bound_is_no_archive(world: "LayerWorld") -> None:
    world.image(IMAGE)
    world.run("head -c 100000 /dev/zero >d/big")
    made = archive(world.view, ["/d"], max_bytes=100_000)
    gc.collect()  # a writer that was left open would complain
    assert (made.data, made.too_large) == (b"", True)
    assert not archive(world.view, ["/d"], exclude=["big"], max_bytes=100_000).too_large


def test_many_small_files_meet_the_bound_too(world: "LayerWorld") -> None:
    world.image(IMAGE)
    world.run("i=0; while [ $i -lt 300 ]; do : >d/$i; i=$((i + 1)); done")
    assert archive(world.view, ["/d"], max_bytes=100_000).too_large
