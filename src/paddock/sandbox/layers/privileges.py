"""Run a program of the host over a layer with no more rights than the layer's owner has.

Rights  as root we become the owner; any owner but root gets a user namespace in which all files of its own, and only
        those, are open to it whatever their modes say. A layer of root's (a container engine's) is read as root.
"""

import os
import subprocess
from typing import NamedTuple

from paddock.sandbox.failures import SandboxError


class LayerOwner(NamedTuple):
    """User and group that a layer belongs to."""

    uid: int
    gid: int


def run_as(words: list[str], owner: LayerOwner, timeout_s: float) -> subprocess.CompletedProcess[bytes]:
    """Run it to its end; SandboxError when it can't be started or takes too long."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    if owner.uid != 0:
        words = ["unshare", "--user", "--map-root-user", "--", *words]
    try:
        if os.geteuid() == 0:
            return subprocess.run(
                words,
                user=owner.uid,
                group=owner.gid,
                extra_groups=[],
                cwd="/",
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        return subprocess.run(
            words, cwd="/", env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise SandboxError(f"{words[0]} took longer than {timeout_s:g} s", kind="timeout") from None
    except FileNotFoundError as error:
        raise SandboxError(f"{error.filename} is not on this machine", kind="missing", retryable=False) from None
