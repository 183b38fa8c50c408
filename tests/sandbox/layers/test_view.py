"""What differs between an image and an upper layer, held against the kernel's own merged tree."""

import errno
import os
from typing import TYPE_CHECKING

import pytest
from tests.sampling import few

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.layers import View
from paddock.sandbox.layers.marks import Marks
from paddock.sandbox.layers.nodes import Node
from paddock.sandbox.layers.walk import LayerWalk

if TYPE_CHECKING:
    from tests.sandbox.layers.conftest import LayerWorld

pytestmark = pytest.mark.sandbox

IMAGE = """
mkdir -p d/sub/deep e bin testbed
echo f >d/f; echo g >d/sub/g; echo h >d/sub/deep/h; echo e >e/e; echo x >e/x
ln -s d/f link; ln -s /d/sub abs; ln -s loop loop; echo run >bin/run; chmod 755 bin/run; ln e/e e/hard
"""


def told(world: "LayerWorld", under: str = "/") -> dict[str, str]:
    return {change.path: change.kind for change in world.view.changes(under)}


def by_force(world: "LayerWorld") -> dict[str, str]:
    before, after = world.before(), world.merged()
    kinds = dict.fromkeys(after.keys() - before.keys(), "added")
    kinds |= dict.fromkeys(before.keys() - after.keys(), "removed")
    return kinds | {path: "changed" for path in before.keys() & after.keys() if before[path] != after[path]}


EDITS = {
    "nothing": "true",
    "touch_only": "touch d/f e/e && cat d/f >/dev/null",
    "chmod_only": "chmod 600 d/f; chmod 700 d/sub",
    "rewritten_with_the_same_bytes": "cp d/f t && mv t d/f",
    "folder_removed": "rm -rf d",
    "folder_removed_and_made_again": "rm -rf d && mkdir -p d/sub && echo new >d/n && echo g >d/sub/g",
    "folder_made_again_empty": "rm -rf d && mkdir d",
    "renamed_file": "mv d/f d/sub/f2",
    "renamed_folder": "cp -a d d2 && rm -rf d",
    "file_becomes_folder": "rm d/f && mkdir -p d/f/in && echo 1 >d/f/in/1",
    "folder_becomes_file": "rm -rf d/sub && echo file >d/sub",
    "folder_becomes_link": "rm -rf d && ln -s e d",
    "link_becomes_folder": "rm abs && mkdir abs && echo 1 >abs/1",
    "link_turned": "ln -sfn e/e link",
    "removed_then_back_as_it_was": "rm d/f && echo f >d/f",
    "added_and_removed_again": "echo 1 >new && rm new",
    "special_files": "mkfifo d/fifo",
    "names": r"""touch "$(printf 'caf\351')" "$(printf 'a\nb')" ' sp ace ' '"quoted"' 'back\slash' 'ünï' && rm e/x""",
    "hard_link_broken": "echo more >>e/e",
    "hard_link_made": "ln d/f d/f2",
    "closed": "mkdir shut && echo 1 >shut/in && echo 2 >d/none && chmod 000 d/none shut",
    "everything": "rm -rf d e bin link abs loop testbed",
}
QUICK_OVER_LAYERS = ["folder_removed_and_made_again", "renamed_folder", "file_becomes_folder", "link_becomes_folder"]
QUICK_OVER_LAYERS += ["removed_then_back_as_it_was", "everything"]
QUICK = [*QUICK_OVER_LAYERS, "touch_only", "chmod_only", "folder_made_again_empty", "names", "hard_link_made", "closed"]


@pytest.mark.slow
@pytest.mark.parametrize("edit", few(EDITS, QUICK, pytest.mark.long))
def test_changes_are_those_of_the_kernels_merged_tree(world: "LayerWorld", edit: str) -> None:
    world.image(IMAGE)
    world.run(EDITS[edit])
    assert told(world) == by_force(world)


@pytest.mark.slow
@pytest.mark.parametrize("edit", few(EDITS, QUICK_OVER_LAYERS, pytest.mark.long))
def test_changes_over_an_image_of_layers_that_hide_each_other(world: "LayerWorld", edit: str) -> None:
    world.image(
        "mkdir -p d/old/x d/sub; echo old >d/old/x/o; echo old >d/f; echo 1 >d/sub/gone; mkdir link; echo 1 >link/in"
    )
    world.run("rm -rf d/old d/sub link && mkdir d/sub && echo g >d/sub/g")
    world.keep()
    world.run(IMAGE)
    world.keep()
    world.run(EDITS[edit])
    assert len(world.layers) == 3
    assert told(world) == by_force(world)


def test_a_change_says_type_and_size(world: "LayerWorld") -> None:
    world.image(IMAGE)
    world.run("printf 12345 >d/f; mkdir new; ln -s d l2; mkfifo fifo; rm e/x; rm -rf d/sub; echo 1 >d/sub")
    found = {change.path: (change.kind, change.type, change.size_bytes) for change in world.view.changes()}
    assert found == {
        "/d/f": ("changed", "file", 5),
        "/d/sub": ("changed", "file", 2),
        "/d/sub/deep": ("removed", "directory", 0),
        "/d/sub/deep/h": ("removed", "file", 0),
        "/d/sub/g": ("removed", "file", 0),
        "/e/x": ("removed", "file", 0),
        "/fifo": ("added", "other", 0),
        "/l2": ("added", "symlink", 0),
        "/new": ("added", "directory", 0),
    }


def test_changes_below_a_folder_are_those_and_no_others(world: "LayerWorld") -> None:
    world.image(IMAGE)
    world.run("echo 1 >d/sub/g; echo 1 >e/new; chmod 700 d/sub; rm -rf bin")
    assert told(world, "/d/sub") == {"/d/sub": "changed", "/d/sub/g": "changed"}
    assert told(world, "/d/sub/g") == {"/d/sub/g": "changed"}
    assert told(world, "/abs") == told(world, "/d/sub")
    assert told(world, "/bin/run") == {"/bin/run": "removed"}
    assert told(world, "/d/sub/deep") == told(world, "/no/such") == {}


def test_a_path_that_cannot_be_decoded_is_told_in_ascii(world: "LayerWorld") -> None:
    world.run(r"""touch "$(printf 'caf\351')" """)
    assert list(told(world)) == ["/caf\\xe9"]


def test_lookups_follow_links_inside_the_tree_only(world: "LayerWorld") -> None:
    world.image(IMAGE)
    world.run(
        "ln -s /etc/hostname out; ln -s ../../../../d/f up; ln -s /abs/deep/h two; mkdir etc; echo inside >etc/hostname"
    )
    view = world.view
    assert view.read("/link") == b"f\n"
    assert view.read("/out") == b"inside\n"
    assert view.read("/up") == b"f\n"
    assert view.read("/two") == b"h\n"
    assert view.read("/abs/../f") == b"f\n"
    assert view.read("/d/f", max_bytes=1) == b"f"
    assert view.names("/abs") == [b"deep", b"g"]
    with pytest.raises(FileNotFoundError):
        view.read("/d/none")
    with pytest.raises(IsADirectoryError):
        view.read("/d")
    with pytest.raises(NotADirectoryError):
        view.read("/d/f/x")
    with pytest.raises(OSError) as looped:
        view.read("/loop")
    assert looped.value.errno == errno.ELOOP


def test_a_fifo_does_not_hold_a_reader(world: "LayerWorld") -> None:
    world.run("mkfifo fifo")
    with pytest.raises(FileNotFoundError):
        world.view.read("/fifo")


def test_what_was_removed_is_not_read(world: "LayerWorld") -> None:
    world.image(IMAGE)
    world.run("rm -rf d/sub && mkdir d/sub && rm e/x")
    assert world.view.names("/d/sub") == []
    for path in ("/d/sub/g", "/e/x"):
        with pytest.raises(FileNotFoundError):
            world.view.read(path)
    assert world.view.image.read(b"/d/sub/g") == b"g\n"


def test_marks_that_an_agent_sets_hide_nothing(world: "LayerWorld") -> None:
    """In a mount with `userxattr` the kernel keeps them from the upper layer or escapes them."""
    world.image(IMAGE)
    world.run("touch d/mine d/empty")
    script = "import os\nfor n, v in (('opaque', b'y'), ('whiteout', b''), ('redirect', b'/e'), ('metacopy', b'')):\n"
    script += (
        "  for p in ('d', 'd/empty'):\n    try: os.setxattr(p, 'user.overlay.' + n, v)\n    except OSError: pass\n"
    )
    world.run(f'/usr/bin/python3 -c "{script}"')
    assert told(world) == by_force(world) == {"/d/empty": "added", "/d/mine": "added"}


def test_marks_of_the_other_kind_of_mount_are_not_read(world: "LayerWorld") -> None:
    world.image(IMAGE)
    world.run("touch d/new")
    os.setxattr(world.upper / "d", "user.overlay.opaque", b"y")
    assert told(world)["/d/f"] == "removed"
    assert [c.path for c in View(world.layers, world.upper, attributes="trusted").changes()] == ["/d/new"]


@pytest.mark.parametrize("mark", ["redirect", "metacopy"])
def test_what_the_view_cannot_read_rightly_is_refused(world: "LayerWorld", mark: str) -> None:
    world.image(IMAGE)
    world.run("touch d/new")
    os.setxattr(world.upper / ("d" if mark == "redirect" else "d/new"), f"user.overlay.{mark}", b"/e")
    with pytest.raises(SandboxError, match=f"user.overlay.{mark}") as refused:
        world.view.changes()
    assert not refused.value.retryable


def test_a_whiteout_may_be_an_empty_file_with_an_attribute(world: "LayerWorld") -> None:
    world.image(IMAGE)
    world.run("touch d/f")
    (world.upper / "d" / "f").write_bytes(b"")
    os.setxattr(world.upper / "d" / "f", "user.overlay.whiteout", b"")
    assert told(world) == {"/d/f": "removed"}


@pytest.mark.slow
def test_folders_without_end_are_cut_and_told(world: "LayerWorld") -> None:
    world.run("/usr/bin/python3 -c \"import os\nfor n in range(1500): os.mkdir('n'); os.chdir('n')\"")
    paths = [change.path for change in world.view.changes()]
    assert len(paths) == 201
    assert [change.cut for change in world.view.candidates()] == [False] * 200 + [True]


def test_the_walk_looks_at_nothing_that_the_upper_layer_does_not_touch(world: "LayerWorld") -> None:
    class Counting(Marks):
        looks = 0

        def find(self, folders: tuple[bytes, ...], name: bytes) -> list[Node]:
            self.looks += 1
            return super().find(folders, name)

    world.image("mkdir big d; for i in $(seq 300); do echo $i >big/$i; done; echo 1 >d/1")
    world.run("echo 2 >d/1; echo 1 >big/new")
    marks = Counting()
    image = tuple(os.fsencode(layer) for layer in world.layers)
    found = [change.path for change in LayerWalk(marks).run(os.fsencode(world.upper), image, [])]
    assert found == [b"/big", b"/big/new", b"/d", b"/d/1"]
    assert marks.looks == 4
