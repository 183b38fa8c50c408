"""A program that is not ours, as a harness runs it: its source, its version and its commands.

Where   `inside`: seen read-only in the sandbox, below `MOUNT_ROOT`; `outside`: on this machine, its tools bound to the
        sandbox.
Folder  `<home>/programs/<name>-<version>/`, with `bin/<command>` for each command, and `program.json`, written last.
"""

from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import Field

from paddock.types import Record

MOUNT_ROOT = PurePosixPath("/opt/paddock")
"""The folder of a sandbox below which its programs are mounted, by their folders' names."""


class Program(Record):
    """One program in one version."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    """Name of the harness that runs it."""
    version: str = Field(pattern=r"^[0-9][A-Za-z0-9.+-]*$")
    where: Literal["inside", "outside"]
    source: Literal["npm", "pip"]
    packages: tuple[str, ...] = Field(min_length=1)
    """What is installed, as the installer takes it; `{version}` stands for the version."""
    lock: Path | None = None
    """Of every package the version and the hash, made by `scripts/lock.py`: npm's `package-lock.json`, or requirements
    as pip reads them. None, or one of another version or processor: what comes beside the packages is what the registry
    or index says on the day."""
    commands: dict[str, str]
    """Where each command is: a path below the folder that may have wildcards, and is the only one that fits."""
    python: str | None = None
    """The Python that it needs, such as `3.12`; None: any that paddock runs with."""
    licence: str
    """SPDX identifier, or the words that a user has to know before installing it."""
    memory_mib: int = Field(default=0, ge=0)
    """Memory that one run takes on this machine; for programs outside."""

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return f"{self.name}-{self.version}"

    @property
    def pinned_packages(self) -> list[str]:
        """Its packages, with the version filled in."""
        return [package.replace("{version}", self.version) for package in self.packages]

    @property
    def package_text(self) -> str:
        """The pinned packages as one text, for messages."""
        return " ".join(self.pinned_packages)

    @property
    def mount_path(self) -> PurePosixPath:
        """The path of its folder in a sandbox."""
        return MOUNT_ROOT / self.folder
