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
from paddock.sandbox.layers.asowner import Owner, run_as
from paddock.sandbox.layers.disk import remove_tree

_KEPT = "--preserve=mode,ownership,timestamps,links,xattr"
_TIMEOUT_S = 1800.0


def copy_upper(upper: Path, dest: Path) -> None:
    """Make `dest`, which must not exist, in a folder that the layer's owner can reach."""
    status = upper.lstat()
    owner = Owner(status.st_uid, status.st_gid)
    dest.mkdir(mode=0o700)
    try:
        if os.geteuid() == 0:
            os.chown(dest, owner.uid, owner.gid)
        _run(["cp", "-dRT", _KEPT, "--reflink=auto", "--sparse=always", "--", str(upper), str(dest)], owner)
    except BaseException:
        with contextlib.suppress(OSError):
            remove_tree(dest)
        raise


def _run(words: list[str], owner: Owner) -> None:
    done = run_as(words, owner, _TIMEOUT_S)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-1000:]
        raise SandboxError(f"copying a layer failed ({done.returncode}): {said}", kind="copy")
