"""A sandbox that still runs can swap what is being read, between any two looks; it leads nobody out of its layers."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.sandbox.layers import View
from paddock.sandbox.layers.nodes import content, look, reader
from paddock.sandbox.layers.walk import LayerChange

if TYPE_CHECKING:
    from tests.sandbox.layers.conftest import LayerWorld

pytestmark = pytest.mark.sandbox


@pytest.fixture
def world(world: "LayerWorld") -> "LayerWorld":
    (world.home / "host").mkdir()
    (world.home / "host" / "f").write_bytes(b"the host's secret")
    (world.home / "host" / "secret").touch()
    world.image("mkdir -p testbed/d; echo 1 >testbed/d/f; echo 1 >testbed/file")
    world.run("cd testbed; echo 2 >d/f; echo 2 >file; echo 2 >d/a")
    return world


def swap(world: "LayerWorld", name: str, target: str = "host") -> None:
    """What a payload could do at any moment."""
    path = world.upper / "testbed" / name
    path.rename(path.with_suffix(".away"))
    path.symlink_to(world.home / target)


def walked(world: "LayerWorld", swap_at: str, name: str) -> list[str]:
    """The walk's paths, when a folder becomes a link to the host's as soon as a path was told of."""
    paths = []
    for change in world.view.candidates("/testbed"):
        paths.append(change.path.decode())
        if paths[-1] == swap_at:
            swap(world, name)
    return paths


def test_a_folder_swapped_before_it_is_entered_is_not_followed(world: "LayerWorld") -> None:
    paths = walked(world, "/testbed/d", "d")
    assert "/testbed/d/secret" not in paths
    assert "/testbed/d/a" not in paths


def test_a_folder_swapped_while_it_is_read_stays_what_it_was(world: "LayerWorld") -> None:
    assert walked(world, "/testbed/d/a", "d") == [
        "/testbed",
        "/testbed/d",
        "/testbed/d/a",
        "/testbed/d/f",
        "/testbed/file",
    ]


def test_a_file_below_a_swapped_folder_is_read_where_it_was(world: "LayerWorld") -> None:
    for change in world.view.candidates("/testbed/d/f"):
        swap(world, "d")
        assert change.after is not None
        assert content(change.after) == b"2\n"


def test_a_file_swapped_for_a_link_is_not_read(world: "LayerWorld") -> None:
    seen: list[LayerChange] = []
    for change in world.view.candidates("/testbed/file"):
        swap(world, "file", "host/f")
        assert change.after is not None
        with pytest.raises(FileNotFoundError):
            content(change.after)
        seen.append(change)
    assert len(seen) == 1


def test_a_lookup_holds_what_it_found(world: "LayerWorld") -> None:
    with world.view.merged.at(b"/testbed/d") as found:
        swap(world, "d")
        assert world.view.image.marks.names(found.folders) == {b"a", b"f"}


def test_a_file_that_is_being_read_stays_open(world: "LayerWorld") -> None:
    node = look(bytes(world.upper / "testbed/file"))
    assert node is not None
    with reader(node) as fd:
        swap(world, "file", "host/f")
        assert Path(f"/proc/self/fd/{fd}").read_bytes() == b"2\n"


def test_an_upper_layer_that_is_a_link_is_none(world: "LayerWorld", home: Path) -> None:
    (home / "link").symlink_to(world.upper)
    with pytest.raises(NotADirectoryError):
        View(world.layers, home / "link").changes()
