"""A copy of an upper layer, as it is: whiteouts, marks, modes, times, owners, hard links, holes, links.

By      `cp` (coreutils), with shared extents where the file system can. It runs as the layer's owner, not as root:
        were something still running in the sandbox, a folder swapped for a link would lead it to no file of the
        host's that the payload itself may not read. In a user namespace of its own it reads what is closed (mode 000).
Errors  SandboxError with cp's last words; FileExistsError. Nothing is left at the destination.
"""

import contextlib
import os
from pathlib import Path

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.layers.disk import remove_tree
from paddock.sandbox.layers.marks import Attributes
from paddock.sandbox.layers.privileges import LayerOwner, run_as

_PRESERVE = "--preserve=mode,ownership,timestamps,links,xattr"
_TIMEOUT_S = 1800.0
_TRUSTED = "trusted.overlay."


def copy_upper(upper: Path, dest: Path, *, attributes: Attributes = "user") -> None:
    """Make `dest`, which must not exist, in a folder that the layer's owner can reach.

    `attributes`: where the copied layer keeps its marks; the copy's are `user`. A container engine's layer
    (`trusted`) lies where only root can reach it: nothing may run in its sandbox meanwhile.
    """
    status = upper.lstat()
    owner = LayerOwner(status.st_uid, status.st_gid) if attributes == "user" else LayerOwner(0, 0)
    dest.mkdir(mode=0o700)
    try:
        if os.geteuid() == 0:
            os.chown(dest, status.st_uid, status.st_gid)
        _run(["cp", "-dRT", _PRESERVE, "--reflink=auto", "--sparse=always", "--", str(upper), str(dest)], owner)
        if attributes == "trusted":
            _to_user_marks(dest)
    except BaseException:
        with contextlib.suppress(OSError):
            remove_tree(dest)
        raise


def _to_user_marks(layer: Path) -> None:
    """Marks of root's overlay into those of a user namespace's."""
    for folder, _, names in os.walk(layer):
        for path in (folder, *(os.path.join(folder, name) for name in names)):  # noqa: PTH118 - one call for each
            for name in os.listxattr(path, follow_symlinks=False):
                if not name.startswith(_TRUSTED):
                    continue
                mark = name.removeprefix(_TRUSTED)
                if mark in ("redirect", "metacopy"):
                    raise SandboxError(f"a layer with the attribute {name} can't be copied", kind="overlay_format")
                if mark == "opaque":
                    os.setxattr(path, "user.overlay.opaque", os.getxattr(path, name, follow_symlinks=False))
                os.removexattr(path, name, follow_symlinks=False)


def _run(words: list[str], owner: LayerOwner) -> None:
    done = run_as(words, owner, _TIMEOUT_S)
    if done.returncode:
        error_text = done.stderr.decode(errors="replace").strip()[-1000:]
        raise SandboxError(f"copying a layer failed ({done.returncode}): {error_text}", kind="copy")
