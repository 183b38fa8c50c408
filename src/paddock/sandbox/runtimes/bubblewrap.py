"""Bubblewrap (`apt-get install bubblewrap`, 0.4 or newer): the runtime that a fresh machine can always have."""

import shutil
from typing import ClassVar

from paddock.sandbox.records import RuntimeName, SandboxSpec


class Bubblewrap:
    name: ClassVar[RuntimeName] = "bubblewrap"

    def missing(self) -> str | None:
        return None if shutil.which("bwrap") else "no bwrap on PATH: apt-get install bubblewrap"

    def command(self, spec: SandboxSpec) -> list[str]:
        return [
            *("bwrap", "--bind", "{merged}", "/"),
            *("--dev", "/dev", "--proc", "/proc"),
            *("--size", str(spec.limits.shm_mib << 20), "--tmpfs", "/dev/shm"),  # noqa: S108 - the sandbox's own
            # What the payload may write outside its upper layer is /dev/shm alone.
            *("--remount-ro", "/dev"),
            *("--unshare-pid", "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--chdir", "/", "--"),
        ]
