"""Small images for real sandboxes, made of what this machine has: nothing is downloaded.

`sandbox_home`     a folder for a store that a sandbox's user can pass through, removed at the end.
`static_image`     one static shell with its tools, and nothing else: no library, no interpreter, no configuration.
`repository_image` a git repository of given files at `/testbed`, in an image with a shell, git and busybox.
Errors  FileNotFoundError where this machine lacks the programs; tests skip with it.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.settings import PAYLOAD_ID

WORKDIR = "/testbed"
_TOOLS = ("sh", "ls", "cat", "nc", "wget", "env", "printf", "echo", "find", "grep", "sleep", "tr", "timeout")
_GIT = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main")
_GIT_ENV = {
    "PATH": os.environ.get("PATH", os.defpath),
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z",
}


@contextmanager
def sandbox_home() -> Iterator[Path]:
    """On a disk: temporary folders may be in memory, where overlays do not work."""
    home = Path(tempfile.mkdtemp(prefix="paddock-home-", dir="/var/tmp"))
    home.chmod(0o711)
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def store_of(home: Path) -> ImageStore:
    return ImageStore(home, payload_id=PAYLOAD_ID)


def static_image(store: ImageStore, name: str = "static") -> str:
    """The name of the image, made where it is not there yet."""
    busybox = _busybox()

    def fill(tree: Path) -> None:
        for folder in ("bin", "dev", "proc", "sys", "tmp", "etc", "root", "var/tmp"):
            (tree / folder).mkdir(parents=True)
        shutil.copy(busybox, tree / "bin/busybox")
        for tool in _TOOLS:
            (tree / "bin" / tool).symlink_to("busybox")
        (tree / "tmp").chmod(0o1777)
        _own(store, tree)

    if not store.has(name):
        store.add(name, fill, env={"PATH": "/bin"})
    return name


def repository_image(store: ImageStore, name: str, files: Mapping[str, str], *, outside: Mapping[str, str] = {}) -> str:
    """`files` below the repository; `outside`: more of them, by absolute path, which its git does not track."""
    busybox = _busybox()

    def fill(tree: Path) -> None:
        root = tree / WORKDIR.lstrip("/")
        _write(root, files)
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "base"]):
            subprocess.run(["git", *_GIT, *command], cwd=root, env=_GIT_ENV, check=True, capture_output=True)
        _write(tree, {path.lstrip("/"): text for path, text in outside.items()})
        (tree / "usr/bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(busybox, tree / "usr/bin/busybox")
        _own(store, tree)

    if not store.has(name):
        store.add(name, fill, base=tiny_image(store, rich=True), workdir=WORKDIR)
    return name


def _busybox() -> str:
    path = shutil.which("busybox")
    if path is None:
        raise FileNotFoundError("no busybox on this machine (apt-get install busybox-static)")
    return path


def _write(root: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def _own(store: ImageStore, tree: Path) -> None:
    store.own([tree, *(Path(folder) / name for folder, dirs, files in os.walk(tree) for name in (*dirs, *files))])
