"""Bubblewrap (0.4 or newer): the runtime that a fresh machine can always have."""

from typing import ClassVar

from paddock.sandbox.records import RuntimeName, SandboxSpec
from paddock.sandbox.runtimes.runtime import OverlayRuntime


class Bubblewrap(OverlayRuntime):
    name: ClassVar[RuntimeName] = "bubblewrap"
    program: ClassVar[str] = "bwrap"
    install: ClassVar[str] = "apt-get install bubblewrap"

    def command(self, spec: SandboxSpec) -> list[str]:
        return [
            *("bwrap", "--bind", "{merged}", "/", "--dev", "/dev", "--proc", "/proc"),
            # What is first can't be killed from inside.
            *(
                "--unshare-pid",
                "--as-pid-1",
                "--cap-drop",
                "ALL",
                "--die-with-parent",
                "--new-session",
                "--chdir",
                "/",
                "--",
            ),
        ]
