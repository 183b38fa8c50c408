"""Repositories on this machine: which of them a recipe may name, and how one is read without its configuration.

Allowed  a repository in or below one of the folders that the operator names, links followed: its folder, its git
         folder, its objects, its refs and the stores that it borrows objects from.
Read     by a bare repository of our own that has its refs and borrows its objects. Git never opens theirs, so nothing
         that its configuration, attributes or hooks name can run. Names are looked up in loose and packed refs.
Errors   RowError `repository_refused`: not allowed, or a kind that is not read; `no_such_commit`: no repository there.
"""

import os
import re
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from paddock.errors import RowError

ANYWHERE = (Path("/"),)
"""Allows every path: for one that the user has typed himself."""
_REMOTE = re.compile(r"(https?|ssh)://[^-/].*|([\w.-]+@)?[A-Za-z0-9][\w.-]*:(?!:|//).+")
"""What git sends over a network: a URL, or `[USER@]HOST:PATH` as ssh has it."""
_LONGEST = 1 << 16
"""Bytes of a small file of a git folder."""
_MOST_STORES = 50
"""That borrow from each other."""


def local_path(repository: str) -> Path | None:
    """Where a repository lies on this machine, as it is written; None: it is fetched over a network."""
    if _REMOTE.fullmatch(repository):
        return None
    if repository.startswith("file://"):
        url = urlsplit(repository)
        if url.netloc in ("", "localhost"):
            return Path(unquote(url.path))
    if "::" in repository or "://" in repository:
        raise _refused(repository, "is of a kind that is not read; give an https, http or ssh URL, or a path")
    try:
        return Path(repository).expanduser()
    except RuntimeError:
        raise _refused(repository, "names a home folder of a user that this machine does not know") from None


def check_allowed(repository: str, allowed: Sequence[Path]) -> None:
    """RowError when the repository lies on this machine where no recipe may read."""
    path = local_path(repository)
    if path is not None:
        _check(repository, path, allowed)


def borrow(repository: str, path: Path, allowed: Sequence[Path], bare: Path) -> None:
    """Make `bare`, an empty bare repository, read the refs and objects of the one at `path`."""
    _check(repository, path, allowed)
    try:
        git = _git_folder(path)
        head = _text(git / "HEAD")
        common = git / (_text(git / "commondir") or "").strip()
        objects, refs = common / "objects", common / "refs"
        if head is None or not objects.is_dir() or not refs.is_dir():
            raise RowError(f"{repository} is no git repository", kind="no_such_commit")
        beside = [common / name for name in ("packed-refs", "shallow") if (common / name).is_file()]
    except (OSError, ValueError) as error:
        raise RowError(f"{repository} can't be read: {error}", kind="no_such_commit") from None
    stores = _stores(repository, objects)
    for part in (git, common, refs, *beside, *stores):
        _check(repository, part, allowed)
    (bare / "objects" / "info" / "alternates").write_bytes(b"".join(os.fsencode(part) + b"\n" for part in stores))
    (bare / "HEAD").write_bytes(os.fsencode(head))
    shutil.rmtree(bare / "refs")
    for part in (refs, *beside):
        (bare / part.name).symlink_to(part.resolve())


def _check(repository: str, path: Path, allowed: Sequence[Path]) -> None:
    real = _real(repository, path)
    if any(real.is_relative_to(folder.expanduser().resolve()) for folder in allowed):
        return
    where = "lies on this machine" if real == local_path(repository) else f"is read from {real} on this machine"
    raise _refused(
        repository,
        f"{where}, where rows and recipes may not read: allow a folder that holds it, in a config by "
        "`images: {local_repositories: [FOLDER]}`, on the command line by --local-repository FOLDER",
    )


def _real(repository: str, path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise _refused(repository, f"leads nowhere: {error}") from None


def _git_folder(path: Path) -> Path:
    inner = path / ".git"
    if (link := _text(inner)) is not None:
        return path / link.removeprefix("gitdir:").strip()
    return inner if inner.is_dir() else path


def _stores(repository: str, objects: Path) -> list[Path]:
    """The store and those that it borrows from, links followed."""
    stores = [_real(repository, objects)]
    for store in stores:
        text = _text(store / "info" / "alternates") or ""
        lines = [line for line in text.split("\n") if line and not line.startswith("#")]
        stores += dict.fromkeys(other for line in lines if (other := _real(repository, store / line)) not in stores)
        # Git would follow what is not understood here.
        if any(line.startswith('"') for line in lines) or len(text) == _LONGEST or len(stores) > _MOST_STORES:
            raise _refused(repository, f"borrows objects in a way that is not read: see {store}/info/alternates")
    if any("\n" in str(store) for store in stores):
        raise _refused(repository, "has its objects in a folder with a line's end in its name")
    return stores


def _text(path: Path) -> str | None:
    """The beginning of a regular file; None: there is none."""
    try:
        # A pipe that nobody writes to would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.fsdecode(os.read(descriptor, _LONGEST))
    finally:
        os.close(descriptor)


def _refused(repository: str, why: str) -> RowError:
    return RowError(f"git.repository: {repository!r} {why}", kind="repository_refused")
