"""A small image out of this machine's own programs: for trying a runtime where no image is.

Tree    `/bin/sh`, what of the usual programs the machine has, their libraries, an `/etc/passwd` and empty folders; a
        `rich` one has also bash, git and the like, the parts of the C library that programs of others may ask for, and
        the running interpreter at `/opt/python`, on the image's PATH, without its tests and packages.
Store   the image stays in the store, where a second call finds it.
Errors  SandboxError when the machine lacks even a shell.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from paddock.linux import INSTEAD, require_linux
from paddock.sandbox.failures import SandboxError
from paddock.sandbox.images.store import ImageStore

_PROGRAMS = """
cat chmod cp cut dd echo env false grep head hostname id kill ln ls mkdir mkfifo mount mv ps printf pwd readlink rm
rmdir sed sh sleep sort stat tail tee touch tr true tty uname wc
"""
_MORE = "bash dash du find flock git mknod nohup seq setsid stty sync timeout unshare yes"
_C_LIBRARY = "libdl.so.2 libm.so.6 libpthread.so.0 librt.so.1"
_FOLDERS = (
    "dev",
    "etc",
    "proc",
    "root",
    "sys",
    "tmp",
    "usr/bin",
    "usr/lib",
    "usr/share/tiny/deep",
    "usr/share/git-core/templates",
    "var/tmp",
)
_SEARCH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_LEFT_OUT = (
    "__pycache__",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "site-packages",
    "test",
    "tests",
    "tkinter",
    "turtledemo",
)


def tiny_image(store: ImageStore, *, rich: bool = False) -> str:
    """The name of the image, made where it is not there yet."""
    require_linux("an image of this machine's programs needs", INSTEAD)
    name = f"paddock/tiny-{'rich-2' if rich else 'base'}"
    if not store.has(name):
        env = {"PATH": f"/opt/python/bin:{_SEARCH}"} if rich else None
        store.add(name, lambda tree: _fill(tree, store, rich=rich), env=env, origin={"made_of": "this machine"})
    return name


def _fill(tree: Path, store: ImageStore, *, rich: bool) -> None:
    _make_folders(tree)
    names = f"{_PROGRAMS} {_MORE}" if rich else _PROGRAMS
    programs = [path for name in names.split() if (path := shutil.which(name, path=_SEARCH))]
    if "sh" not in (Path(path).name for path in programs):
        raise SandboxError("this machine has no /bin/sh to make an image of", kind="tiny_image", retryable=False)
    for path in programs:
        shutil.copy(path, tree / "usr/bin" / Path(path).name)
    if rich:
        programs += _copy_python(tree / "opt/python")
    libraries = _libraries(programs)
    if rich:
        libraries |= set(_beside_libc(libraries))
    for library in libraries:
        target = tree / _library_path(library)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    store.own([tree, *(Path(folder) / name for folder, dirs, files in os.walk(tree) for name in (*dirs, *files))])


def _make_folders(tree: Path) -> None:
    for folder in _FOLDERS:
        (tree / folder).mkdir(parents=True)
    for name, target in (("bin", "bin"), ("sbin", "bin"), ("lib", "lib"), ("lib64", "lib64")):
        (tree / "usr" / target).mkdir(exist_ok=True)
        (tree / name).symlink_to(f"usr/{target}")
    (tree / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (tree / "etc/group").write_text("root:x:0:\n")
    (tree / "usr/share/tiny/file").write_text("of the image\n")
    (tree / "usr/share/tiny/deep/file").write_text("of the image\n")
    for folder in ("tmp", "var/tmp"):
        (tree / folder).chmod(0o1777)


def _copy_python(dest: Path) -> list[str]:
    """What of it needs libraries."""
    program = Path(os.path.realpath(sys.executable))
    standard = Path(sysconfig.get_path("stdlib"))
    (dest / "bin").mkdir(parents=True)
    shutil.copy(program, dest / "bin" / program.name)
    (dest / "bin/python3").symlink_to(program.name)
    into = dest / "lib" / standard.name
    shutil.copytree(standard, into, ignore=shutil.ignore_patterns(*_LEFT_OUT, "config-*", "*.a"), symlinks=True)
    return [str(program), *(str(path) for path in (standard / "lib-dynload").glob("*.so"))]


def _library_path(library: str) -> str:
    """Where the image's loader looks for it."""
    if library.startswith("/usr/lib"):
        return library[1:]
    return f"usr{library}" if library.startswith("/lib") else f"usr/lib/{Path(library).name}"


def _libraries(programs: Iterable[str]) -> set[str]:
    """What the loader would take for them; a static program and a script need nothing."""
    listing = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    words = (word for line in listing.splitlines() if line.startswith("\t") for word in line.split())
    return {word for word in words if word.startswith("/") and Path(word).is_file()}


def _beside_libc(libraries: Iterable[str]) -> Iterator[str]:
    for libc in (Path(library) for library in libraries if Path(library).name == "libc.so.6"):
        yield from (str(libc.with_name(name)) for name in _C_LIBRARY.split() if libc.with_name(name).is_file())
