"""An ordinary user reads the layers of its own sandboxes as well as root does, closed files included."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.sandbox.layers.conftest import LayerWorld

pytestmark = pytest.mark.sandbox
AsPayload = Callable[[Callable[[], Any]], Any]


@pytest.fixture
def used(world: "LayerWorld") -> "LayerWorld":
    world.image(
        "mkdir -p testbed/d testbed/again; cd testbed; git init -q; echo 1 >d/a; echo 1 >again/x;"
        "git add .; git commit -qm 1"
    )
    world.run(
        "cd testbed; rm -rf again; mkdir again; echo 2 >again/y; chmod 000 again; mkdir shut; echo 1 >shut/in;"
        "chmod 000 shut; echo 2 >d/a; chmod 000 d/a"
    )
    return world


def test_a_user_sees_the_same_changes_as_root(used: "LayerWorld", as_payload: AsPayload) -> None:
    told = as_payload(lambda: used.view.changes())
    assert told == used.view.changes()
    assert {change.path: change.kind for change in told} == {
        "/testbed/again": "changed",
        "/testbed/again/x": "removed",
        "/testbed/again/y": "added",
        "/testbed/d/a": "changed",
        "/testbed/shut": "added",
        "/testbed/shut/in": "added",
    }


def test_a_user_makes_the_same_patch_as_root(used: "LayerWorld", as_payload: AsPayload) -> None:
    made = as_payload(used.patch)
    assert made == used.patch()
    assert made.data.count(b"diff --git") == 4


def test_what_was_closed_is_closed_again(used: "LayerWorld", as_payload: AsPayload) -> None:
    as_payload(used.patch)
    for name in ("again", "shut", "d/a"):
        assert (used.upper / "testbed" / name).stat().st_mode & 0o777 == 0
    assert as_payload(lambda: used.view.read("/testbed/d/a")) == b"2\n"
    assert (used.upper / "testbed/d/a").stat().st_mode & 0o777 == 0
