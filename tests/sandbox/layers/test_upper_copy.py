"""A copied upper layer is the same layer: over the same image it gives the same tree, down to the last mark."""

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.layers import copy_upper, disk_use
from paddock.sandbox.settings import PAYLOAD_ID

if TYPE_CHECKING:
    from tests.sandbox.layers.conftest import LayerWorld

pytestmark = pytest.mark.sandbox

IMAGE = "mkdir -p gone/x again/sub kept; echo 1 >gone/x/f; echo 1 >again/sub/g; echo 1 >kept/one; echo 2 >kept/two"
AGENT = r"""
rm -rf gone again; mkdir -p again/sub; echo new >again/n; rm kept/one; echo more >>kept/two; chmod 640 kept/two
ln kept/two kept/hard; ln -s /kept/two link; mkfifo fifo; printf 'x' >"$(printf 'caf\351')"; truncate -s 50M sparse
printf end >>sparse; mkdir shut; echo in >shut/in; chmod 000 shut; echo 1 >none; chmod 000 none; chmod 4755 kept/two
touch -d '2001-02-03 04:05:06.789' kept/hard again
"""


def facts(top: Path) -> dict[bytes, Any]:
    """Everything about a layer, read as root or in a namespace where its owner is."""
    script = r"""
import os, sys
found, inodes = {}, {}
for folder, names, files in os.walk(os.fsencode(sys.argv[1])):
    for name in [b".", *names, *files]:
        path = os.path.join(folder, name)
        s = os.lstat(path)
        first = inodes.setdefault(s.st_ino, os.path.relpath(path, os.fsencode(sys.argv[1])))
        attributes = {n: os.getxattr(path, n, follow_symlinks=False) for n in os.listxattr(path, follow_symlinks=False)}
        size = s.st_size if not os.path.isdir(path) else 0
        found[os.path.relpath(path, os.fsencode(sys.argv[1]))] = (
            s.st_mode, s.st_uid, s.st_gid, s.st_rdev, size, s.st_mtime_ns, first, sorted(attributes.items()),
            os.readlink(path) if os.path.islink(path) else b"")
print(repr(found))
"""
    words = ["/usr/bin/python3", "-I", "-c", script, str(top)]
    if os.geteuid():
        words = ["unshare", "-Ur", *words]
    return dict(eval(subprocess.run(words, check=True, capture_output=True).stdout))


@pytest.fixture
def used(world: "LayerWorld") -> "LayerWorld":
    world.image(IMAGE)
    world.run(AGENT)
    return world


@pytest.fixture
def open_folder(world: "LayerWorld") -> Path:
    """A place that the layer's owner can write to."""
    folder = world.home / "copies"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


@pytest.mark.parametrize("who", ["root", "payload"])
def test_a_copy_is_the_same_layer(
    used: "LayerWorld", open_folder: Path, who: str, as_payload: Callable[[Callable[[], Any]], Any]
) -> None:
    if who == "root" and os.geteuid():
        pytest.skip("needs root")
    copy = open_folder / "copy"
    (as_payload if who == "payload" else lambda function: function())(lambda: copy_upper(used.upper, copy))
    told = facts(copy)
    assert told == facts(used.upper)
    assert stat.S_ISCHR(told[b"gone"][0])
    assert ("user.overlay.opaque", b"y") in told[b"again"][7]
    assert (copy / "sparse").lstat().st_blocks * 512 < 1 << 20
    assert disk_use(copy) <= disk_use(used.upper) + (64 << 10)


def test_a_sandbox_over_the_copy_sees_what_the_first_saw(used: "LayerWorld", open_folder: Path) -> None:
    seen = used.merged()
    copy = open_folder / "copy"
    copy_upper(used.upper, copy)
    used.layers.append(copy)
    used.upper = used.home / "upper2"
    used.upper.mkdir()
    assert used.before() == used.merged() == seen
    assert used.view.changes() == []


def test_a_copy_that_fails_leaves_nothing(used: "LayerWorld", as_payload: Callable[[Callable[[], Any]], Any]) -> None:
    if os.geteuid():
        pytest.skip("needs root")
    hidden = used.home / "hidden"
    hidden.mkdir(mode=0o700)
    with pytest.raises(SandboxError, match="copying a layer failed"):
        copy_upper(used.upper, hidden / "copy")
    assert list(hidden.iterdir()) == []


def test_a_copy_replaces_nothing(used: "LayerWorld", open_folder: Path) -> None:
    (open_folder / "copy").mkdir()
    (open_folder / "copy" / "mine").touch()
    with pytest.raises(FileExistsError):
        copy_upper(used.upper, open_folder / "copy")
    assert [path.name for path in (open_folder / "copy").iterdir()] == ["mine"]


def test_a_copy_is_made_with_the_owners_rights_and_no_more(used: "LayerWorld", open_folder: Path) -> None:
    """A file of root's in the layer, which the payload can't read, stops the copy."""
    if os.geteuid():
        pytest.skip("needs root")
    secret = used.upper / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)
    with pytest.raises(SandboxError, match="secret"):
        copy_upper(used.upper, open_folder / "copy")
    assert list(open_folder.iterdir()) == []
    assert used.upper.stat().st_uid == PAYLOAD_ID
