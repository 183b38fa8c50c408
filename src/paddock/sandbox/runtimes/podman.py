"""Podman with runc, as a program over our overlay: it runs inside the keeper's user namespace, so its container, its
monitor and its records live and die with the keeper, in the sandbox's folder; no state is shared with the machine's.

Cgroups are the keeper's: podman is told to leave them alone. It then hands the OCI runtime an option that only crun
knows, so runc is called through a script that drops it.
"""

import os
import shutil
from pathlib import Path
from typing import ClassVar

from paddock.sandbox.records import RuntimeName, SandboxSpec
from paddock.sandbox.runtimes.runtime import OverlayRuntime, file_version

CONFIG = """\
[containers]
log_driver = "none"
default_ulimits = []
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
runtime_supports_nocgroup = ["runc"]
"""
RUNC = """\
#!/bin/sh
for word do
  shift
  case $skip$word in
    --cgroup-manager) skip=skip ;;
    --cgroup-manager=*) ;;
    skip*) skip= ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec "{runc}" "$@"
"""


class Podman(OverlayRuntime):
    name: ClassVar[RuntimeName] = "podman"
    program: ClassVar[str] = "podman"
    install: ClassVar[str] = "apt-get install podman runc"

    def missing(self) -> str | None:
        lacking = [name for name in ("podman", "conmon", "runc") if not shutil.which(name)]
        return f"no {' and no '.join(lacking)} on PATH: {self.install}" if lacking else None

    def version(self) -> str:
        return "; ".join(file_version(shutil.which(name)) for name in ("podman", "conmon", "runc"))

    def command(self, spec: SandboxSpec) -> list[str]:
        return [
            *("podman", "--root", "{folder}/podman/root", "--runroot", "{folder}/podman/run"),
            *("--tmpdir", "{folder}/podman/tmp", "--storage-driver", "vfs", "--log-level", "error"),
            *("--runtime", "{folder}/podman/runc", "--runtime-flag", "root={folder}/podman/runc-state"),
            *("run", "--rm", "--interactive", "--network", "none", "--uts", "host", "--cgroups", "disabled"),
            *("--cap-drop", "all", "--security-opt", "no-new-privileges", "--security-opt", "label=disable"),
            # Devices: without the group of terminals, which a namespace of one user does not have.
            *("--mount", "type=devpts,destination=/dev/pts", "--no-hosts", "--rootfs", "{folder}/{merged}"),
        ]

    def environment(self) -> dict[str, str]:
        own = "{folder}/podman"
        return {"CONTAINERS_CONF": f"{own}/containers.conf", "XDG_RUNTIME_DIR": own, "TMPDIR": own}

    def lay_out(self, folder: Path) -> None:
        own = folder / "podman"
        own.mkdir()
        os.chown(own, folder.stat().st_uid, folder.stat().st_gid)
        (own / "containers.conf").write_text(CONFIG)
        (own / "runc").write_text(RUNC.format(runc=shutil.which("runc")))
        (own / "runc").chmod(0o755)
