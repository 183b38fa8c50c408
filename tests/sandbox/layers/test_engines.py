"""Layers that a container engine mounts as root are read by their own marks, or refused."""

import os
from typing import TYPE_CHECKING

import pytest

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.layers import View, patch

if TYPE_CHECKING:
    from tests.sandbox.layers.conftest import LayerWorld

pytestmark = [pytest.mark.sandbox, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

IMAGE = "mkdir -p testbed/d/sub testbed/e; cd testbed; echo f >d/f; echo g >d/sub/g; echo e >e/e; echo b >e/b"
PLAIN = "redirect_dir=off,metacopy=off"


def test_trusted_marks_are_read(world: "LayerWorld") -> None:
    world.image(IMAGE)
    world.run_as_root("cd testbed; rm -rf d; mkdir d; echo n >d/n; rm e/e", PLAIN)
    view = View(world.layers, world.upper, attributes="trusted")
    assert {change.path: change.kind for change in view.changes()} == {
        "/testbed/d/f": "removed",
        "/testbed/d/n": "added",
        "/testbed/d/sub": "removed",
        "/testbed/d/sub/g": "removed",
        "/testbed/e/e": "removed",
    }
    assert patch(view, "/testbed", scratch=world.home).data.count(b"diff --git") == 4


@pytest.mark.parametrize(
    ("edit", "options", "mark"),
    [("mv d moved", "redirect_dir=on", "redirect"), ("chmod 700 e/b", "metacopy=on", "metacopy")],
)
def test_what_the_kernel_really_makes_of_moves_and_modes_is_refused(
    world: "LayerWorld", edit: str, options: str, mark: str
) -> None:
    world.image(IMAGE)
    world.run_as_root(f"cd testbed; {edit}", options)
    view = View(world.layers, world.upper, attributes="trusted")
    with pytest.raises(SandboxError, match=f"trusted.overlay.{mark}"):
        view.changes()
    with pytest.raises(SandboxError, match=f"trusted.overlay.{mark}"):
        patch(view, "/testbed", scratch=world.home)


def test_marks_that_a_payload_sets_under_an_engine_are_not_read(world: "LayerWorld") -> None:
    world.image(IMAGE)
    world.run_as_root("cd testbed; touch d/n", PLAIN)
    os.setxattr(world.upper / "testbed/d", "user.overlay.opaque", b"y")
    view = View(world.layers, world.upper, attributes="trusted")
    assert [change.path for change in view.changes()] == ["/testbed/d/n"]
