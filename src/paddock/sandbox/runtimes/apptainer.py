"""Apptainer, or SingularityCE where only `singularity` is there (1.1 and 3.11 or newer: `--no-mount bind-paths`).

Own overlay options of it are not used: in a user namespace they break `rm -r` of the image's folders. It needs no
configuration: nothing is bound (`--no-mount`), `/tmp` and the home folder stay in the image (so that what is written
there counts as disk), and its caches go below the sandbox's folder.
"""

import shutil
from typing import ClassVar

from paddock.sandbox.records import RuntimeName, SandboxSpec
from paddock.sandbox.runtimes.runtime import OverlayRuntime


class Apptainer(OverlayRuntime):
    name: ClassVar[RuntimeName] = "apptainer"
    program: ClassVar[str] = "apptainer"
    install: ClassVar[str] = (
        "install Apptainer 1.1 or newer (https://apptainer.org/docs/admin/latest/installation.html)"
    )

    def find(self) -> str | None:
        return shutil.which("apptainer") or shutil.which("singularity")

    def command(self, spec: SandboxSpec) -> list[str]:
        return [
            *("apptainer", "-s", "exec", "--containall", "--no-init", "--cleanenv", "--no-privs"),
            *("--no-mount", "bind-paths,sys,tmp,home,cwd", "--bind", "/dev/full", "--writable", "{merged}"),
        ]

    def environment(self) -> dict[str, str]:
        folders = {"CONFIGDIR": "{folder}/.apptainer", "CACHEDIR": "{folder}/.apptainer", "TMPDIR": "{folder}"}
        return {f"{prefix}_{name}": path for prefix in ("APPTAINER", "SINGULARITY") for name, path in folders.items()}
