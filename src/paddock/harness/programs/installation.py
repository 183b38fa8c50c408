"""A program on disk: its record, and how an installer's folder becomes an installation.

File    `program.json` holds what does not depend on where the folder is; paths are made from that.
Commands `bin/<command>` is the command itself where the installer put it there, else a relative link to it, so that it
        is the same file in a sandbox that sees the folder elsewhere.
Units   MiB on disk; times in UTC.
Errors  ConfigError "program_layout": none or several files are what a command is, with what was found.
"""

import hashlib
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from pydantic import Field

from paddock.errors import ConfigError
from paddock.harness.programs.program import Program
from paddock.types import Record
from paddock.whole_file import whole_path

RECORD = "program.json"
_SHOWN = 10


class InstalledProgram(Record):
    """The record of one program in one version on this machine."""

    name: str
    """Name of the harness that runs it."""
    version: str
    packages: list[str]
    """The packages, as the installer takes them."""
    command_names: list[str]
    sha256: dict[str, str]
    """Hash of each command's file; a command whose file lies outside of the folder, such as the Python of an
    environment, is the machine's, and has none."""
    size_mib: float = Field(ge=0)
    installed_at: datetime
    folder: Path = Field(default=Path(), exclude=True)

    def at(self, folder: Path) -> Self:
        return self.model_copy(update={"folder": folder})

    @property
    def commands(self) -> dict[str, Path]:
        """The path of each command."""
        return {name: self.folder / "bin" / name for name in self.command_names}


def finish(program: Program, folder: Path) -> None:
    """Link the commands of an installed folder, let all users read it, and write its record. Raises ConfigError."""
    (folder / "bin").mkdir(exist_ok=True)
    for command, pattern in program.commands.items():
        _link(program, folder, command, pattern)
    record = InstalledProgram(
        name=program.name,
        version=program.version,
        packages=program.pinned_packages,
        command_names=list(program.commands),
        sha256={name: value for name in program.commands if (value := sha256_of(folder, name))},
        size_mib=round(_make_readable(folder) / (1 << 20), 1),
        installed_at=datetime.now(UTC).replace(microsecond=0),
    )
    with whole_path(folder / RECORD) as beside:
        beside.write_text(record.model_dump_json(indent=1) + "\n")
        beside.chmod(0o644)


def sha256_of(folder: Path, command: str) -> str | None:
    """Hash a command's file; None: it lies outside of the folder. Raises OSError where there is none."""
    file = (folder / "bin" / command).resolve(strict=True)
    if not file.is_relative_to(folder.resolve()):
        return None
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _link(program: Program, folder: Path, command: str, pattern: str) -> None:
    matches = sorted(folder.glob(pattern))
    if len(matches) != 1:
        what = _listing(folder, matches) if matches else f"{_nearest(folder, pattern)}"
        raise ConfigError(
            f"harness {program.name}: `{command}` of {program.package_text} has to be the one file that fits "
            f"{pattern}; {'those that fit' if matches else 'none fits'}: {what}",
            kind="program_layout",
        )
    link = folder / "bin" / command
    if matches[0] != link:
        link.symlink_to(os.path.relpath(matches[0], link.parent))


def _nearest(folder: Path, pattern: str) -> str:
    """Say what is there instead of the first part of a pattern that nothing fits."""
    reached = [folder]
    for part in Path(pattern).parts:
        further = [path for start in reached for path in sorted(start.glob(part))]
        if not further:
            break
        reached = further
    inside = [path for start in reached if start.is_dir() for path in sorted(start.iterdir())]
    return f"there is {_listing(folder, inside) if inside else 'nothing in ' + _listing(folder, reached)}"


def _listing(folder: Path, paths: list[Path]) -> str:
    names = [str(path.relative_to(folder)) for path in paths]
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _make_readable(folder: Path) -> int:
    """Let all users read the folder and none but its owner write it; return the bytes that it takes on disk."""
    size = 0
    for parent, _, files in os.walk(folder):
        for path in (Path(parent), *(Path(parent, name) for name in files)):
            status = path.lstat()
            size += status.st_blocks * 512
            if stat.S_ISLNK(status.st_mode):
                continue
            mode = status.st_mode & 0o7777
            open_mode = (mode | 0o444 | (0o111 if parent == str(path) or mode & 0o100 else 0)) & ~0o022
            if open_mode != mode:
                path.chmod(open_mode)
    return size
