"""A published task, whichever form its folder has, as far as it is needed to run and to grade it.

Refused by name, as RowError `harbor_refused`: what can't be done here, or could only be done in part.
"""

import hashlib
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from paddock.errors import RowError

Network = Literal["none", "public"]


class ImageRecipe(NamedTuple):
    """What an image is taken or made from."""

    name: str | None
    """An image that exists, by its name; None: it is built."""
    context: Path | None = None
    """The folder of the Dockerfile; None: nothing is built."""
    timeout_s: float = 600.0
    """Seconds for the build."""
    files: Path | None = None
    """A folder whose files are put into the workdir of an image that exists; None: none are."""
    workdir: str | None = None
    """The task's, where `files` go; None: the image's own."""


class SolutionFiles(NamedTuple):
    """The published solution: files, and the command that makes it with them."""

    files: list["TaskFile"]
    argv: list[str]
    env: dict[str, str]


class TaskFile(NamedTuple):
    """A file of the task, by where it is put in a sandbox."""

    source: Path
    path: str
    """Absolute."""
    executable: bool


class PublishedTask(NamedTuple):
    """A task."""

    name: str
    instruction: str
    image: ImageRecipe
    workdir: str | None
    """None: the image's own."""
    env: dict[str, str]
    """Of the sandbox, for agent and tests."""
    network: Network
    memory_mib: int | None
    agent_timeout_s: float | None
    tests_timeout_s: float
    tests: list[TaskFile]
    """Empty: they are in the verifier's image."""
    tests_argv: list[str]
    tests_env: dict[str, str]
    parser: str | None
    """How a reward is read from what the tests write to the terminal; None: from a reward file."""
    separate: bool
    """As published, tests run in a box of their own."""
    verifier_image: ImageRecipe | None
    """Of that box; None: the agent's."""
    artifacts: list[str]
    """Absolute paths that are carried into a box of its own; relative ones begin at the workdir."""
    exclude: list[str]
    """Patterns of what stays behind below them."""
    solution: SolutionFiles | None
    unknown_keys: list[str]
    """Keys of its file that no published version has; they change nothing."""


def refused(where: Path | str, why: str) -> RowError:
    """Make the error for a task that can't be run here."""
    return RowError(f"{where}: {why}", kind="harbor_refused", stage="seed")


def files_below(folder: Path, target: str) -> list[TaskFile]:
    """List the files of a folder by where they are put; links are followed, inside the folder only."""
    root = folder.resolve()
    files = []
    for path in sorted(folder.rglob("*")):
        if path.name == ".harborignore" or not path.is_file():
            continue
        if not path.resolve().is_relative_to(root):
            raise refused(path, "a link that leads out of the task's folder")
        mode = path.stat().st_mode
        files.append(TaskFile(path, f"{target}/{path.relative_to(folder).as_posix()}", bool(mode & 0o111)))
    return files


def folder_digest(folder: Path) -> str:
    """Return the SHA-256 (hex) over the paths and contents of a folder; modes are lost where a package is installed."""
    digest = hashlib.sha256()
    for path, kind, data in _entries(folder):
        digest.update(f"{path}\0{kind}\0{len(data)}\0".encode("utf-8", "surrogateescape"))
        digest.update(data)
    return digest.hexdigest()


def _entries(folder: Path) -> Iterator[tuple[str, str, bytes]]:
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        name = path.relative_to(folder).as_posix()
        if stat.S_ISLNK(status.st_mode):
            yield name, "link", str(path.readlink()).encode("utf-8", "surrogateescape")
        elif stat.S_ISREG(status.st_mode):
            yield name, "file", path.read_bytes()
