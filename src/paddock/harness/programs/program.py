"""What a harness runs that is not ours: where it comes from, in which version, and what of it is run.

Where   `inside`: seen read-only in the sandbox, below `MOUNTED`; `outside`: on this machine, its tools bound to the
        sandbox.
Folder  `<home>/programs/<name>-<version>/`, with `bin/<command>` for each command, and `program.json`, written last.
"""

from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import Field

from paddock.types import Record

MOUNTED = PurePosixPath("/opt/paddock")
"""Below it a sandbox has the folders of its programs, by their names."""


class Program(Record):
    """One program in one version."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    """Of the harness that runs it."""
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
    """Outside: memory that one run of it takes on this machine."""

    @property
    def folder(self) -> str:
        """Its folder's name."""
        return f"{self.name}-{self.version}"

    @property
    def wanted(self) -> list[str]:
        """Its packages in its version."""
        return [package.replace("{version}", self.version) for package in self.packages]

    @property
    def words(self) -> str:
        """The same, for messages."""
        return " ".join(self.wanted)

    @property
    def mounted(self) -> PurePosixPath:
        """Its folder, as a sandbox sees it."""
        return MOUNTED / self.folder
