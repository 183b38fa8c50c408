"""Real overlays: a payload that works in one as its own uid, and the merged tree as the kernel shows it."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.sandbox.layers import Patch, View, patch, remove_tree
from paddock.sandbox.settings import PAYLOAD_ID

ROOT = os.geteuid() == 0
CLEAN = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "a"), ("EMAIL", "a@b"))
    },
}
MOUNT = 'mount -t overlay overlay -o "$OPTIONS" "$MERGED" && cd "$MERGED" && exec "$@"'
LISTING = """
import hashlib, json, os, stat, sys
top = os.fsencode(sys.argv[1])
found = {}
def walk(path):
    for entry in sorted(os.scandir(top + path), key=lambda entry: entry.name):
        name = path + b"/" + entry.name
        status = entry.stat(follow_symlinks=False)
        kind = stat.S_IFMT(status.st_mode)
        told = ""
        if kind == stat.S_IFREG:
            with open(top + name, "rb") as file:
                told = hashlib.sha256(file.read()).hexdigest()
        elif kind == stat.S_IFLNK:
            told = os.readlink(top + name).decode("utf-8", "backslashreplace")
        found[name.decode("utf-8", "backslashreplace")] = [kind, stat.S_IMODE(status.st_mode), told]
        if kind == stat.S_IFDIR:
            walk(name)
walk(b"")
print(json.dumps(found))
"""

Listing = dict[str, list[Any]]
"""Type, permission bits, digest or target, by path."""


class LayerWorld:
    """An image of some layers and the upper layer of one sandbox."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.layers: list[Path] = []
        self.upper, self._work, self._merged = home / "upper", home / "work", home / "merged"
        for made in (self.upper, self._work, self._merged):
            made.mkdir()
            self._own(made)
        self.layer("true")

    def layer(self, script: str) -> Path:
        """A new top layer of the image, made by a script in it."""
        made = self.home / f"layer{len(self.layers)}"
        made.mkdir()
        self._own(made)
        self.layers.append(made)
        self._as_payload(["sh", "-ec", script], cwd=made)
        return made

    def image(self, script: str) -> None:
        """Go on in the lowest layer."""
        self._as_payload(["sh", "-ec", script], cwd=self.layers[0])

    def run(self, script: str) -> str:
        """What an agent does: a shell script over the merged tree."""
        options = f"userxattr,{self._layers()}"
        words = ["unshare", "-Urm", "sh", "-ec", MOUNT, "sh", "sh", "-ec", script]
        return self._as_payload(words, cwd=self.home, OPTIONS=options, MERGED=str(self._merged))

    def run_as_root(self, script: str, options: str) -> None:
        """As a container engine mounts it: marks are `trusted.overlay.*`."""
        words = ["unshare", "-m", "sh", "-ec", MOUNT, "sh", "sh", "-ec", script]
        env = {**CLEAN, "OPTIONS": f"{options},{self._layers()}", "MERGED": str(self._merged)}
        subprocess.run(words, cwd=self.home, env=env, check=True)

    def keep(self) -> None:
        """The upper layer becomes the image's top one, and a new one begins."""
        kept = self.home / f"layer{len(self.layers)}"
        self.upper.rename(kept)
        self.layers.append(kept)
        self.upper.mkdir()
        self._own(self.upper)

    @property
    def view(self) -> View:
        return View(self.layers, self.upper)

    def patch(self, root: str = "/testbed", exclude: tuple[str, ...] = (), **options: Any) -> Patch:
        return patch(self.view, root, exclude, **{"scratch": Path(tempfile.gettempdir()), **options})

    def merged(self) -> Listing:
        """As the kernel shows it."""
        return self._listing([*self.layers, self.upper])

    def before(self) -> Listing:
        """The image, as the kernel shows it."""
        return self._listing(self.layers)

    def _layers(self) -> str:
        lower = ":".join(str(layer) for layer in reversed(self.layers))
        return f"lowerdir={lower},upperdir={self.upper},workdir={self._work}"

    def _listing(self, layers: list[Path]) -> Listing:
        lower = ":".join(str(layer) for layer in [*reversed(layers), self._merged])
        options = f"ro,userxattr,lowerdir={lower}"
        words = ["unshare", "-m" if ROOT else "-Urm", "sh", "-ec", MOUNT, "sh"]
        words += [sys.executable, "-I", "-S", "-c", LISTING, "."]
        env = {**CLEAN, "OPTIONS": options, "MERGED": str(self._merged)}
        found: Listing = json.loads(subprocess.run(words, env=env, check=True, capture_output=True).stdout)
        return found

    def _as_payload(self, words: list[str], *, cwd: Path, **env: str) -> str:
        who: dict[str, Any] = {"user": PAYLOAD_ID, "group": PAYLOAD_ID, "extra_groups": []} if ROOT else {}
        done = subprocess.run(words, cwd=cwd, env={**CLEAN, **env}, capture_output=True, check=False, **who)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        said: bytes = done.stdout
        return said.decode(errors="replace")

    def _own(self, path: Path) -> None:
        if ROOT:
            os.chown(path, PAYLOAD_ID, PAYLOAD_ID)


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the payload's uid can reach."""
    folder = Path(tempfile.mkdtemp(prefix="paddock-layers-"))
    folder.chmod(0o711)
    yield folder
    remove_tree(folder)


@pytest.fixture
def world(home: Path) -> LayerWorld:
    return LayerWorld(home)


@pytest.fixture
def worlds(home: Path) -> Callable[[], LayerWorld]:
    """Fresh ones, as many as wanted."""
    made: list[LayerWorld] = []

    def make() -> LayerWorld:
        folder = home / f"world{len(made)}"
        folder.mkdir(mode=0o711)
        made.append(LayerWorld(folder))
        return made[-1]

    return make


@pytest.fixture
def applied(home: Path) -> Callable[[LayerWorld, bytes], Listing]:
    """The tree that `git apply` makes of an image's `/testbed`; the image is read through the kernel."""

    def apply(world: LayerWorld, data: bytes) -> Listing:
        target = Path(tempfile.mkdtemp(dir=home))
        lower = ":".join(str(layer) for layer in [*reversed(world.layers), target])
        words = [
            "unshare",
            "-m" if ROOT else "-Urm",
            "sh",
            "-ec",
            MOUNT,
            "sh",
            "cp",
            "-a",
            "testbed/.",
            str(target / "out"),
        ]
        merged = target / "mount"
        merged.mkdir()
        (target / "out").mkdir()
        env = {**CLEAN, "OPTIONS": f"ro,userxattr,lowerdir={lower}", "MERGED": str(merged)}
        subprocess.run(words, env=env, check=True, capture_output=True)
        shutil.rmtree(target / "out" / ".git", ignore_errors=True)
        if data:
            (target / "patch").write_bytes(data)
            done = subprocess.run(
                ["git", "apply", "--whitespace=nowarn", str(target / "patch")],
                cwd=target / "out",
                env={**CLEAN, "GIT_CEILING_DIRECTORIES": str(target)},
                capture_output=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr.decode(errors="replace")
        listed = subprocess.run(
            [sys.executable, "-I", "-S", "-c", LISTING, str(target / "out")], check=True, capture_output=True
        )
        found: Listing = json.loads(listed.stdout)
        return found

    return apply


@pytest.fixture
def as_payload() -> Callable[[Callable[[], Any]], Any]:
    """Calls a function as an ordinary user, the layers' owner; what it returns or raises comes back."""

    def call(function: Callable[[], Any]) -> Any:
        said, say = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                if ROOT:
                    os.setgroups([])
                    os.setresgid(PAYLOAD_ID, PAYLOAD_ID, PAYLOAD_ID)
                    os.setresuid(PAYLOAD_ID, PAYLOAD_ID, PAYLOAD_ID)
                outcome = function()
            except BaseException as error:
                outcome = error
            with os.fdopen(say, "wb") as file:
                pickle.dump(outcome, file)
            os._exit(0)
        os.close(say)
        with os.fdopen(said, "rb") as file:
            told = file.read()
        os.waitpid(child, 0)
        outcome = pickle.loads(told)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return call


@pytest.fixture(scope="session", autouse=True)
def _overlays() -> None:
    done = subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("needs user namespaces and overlayfs")
