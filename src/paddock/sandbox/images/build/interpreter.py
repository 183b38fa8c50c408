"""An interpreter of this machine, copied: for minor versions that no Debian suite of ours has.

Where   `python3.X` of pyenv's versions, newest patch first, then of PATH; its prefix must be its own (not `/usr`), so
        that the folder can move: CPython finds its library from where its program is.
Copied  program, standard library without its tests and GUI, its own `libpython`, and every shared library that the
        layers below lack. Site packages are not.
Errors  RowError `python_missing`: this machine has none; the versions there are, are named.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.errors import RowError
from paddock.processes.command import run

HOME = "opt/python"
_ASK = "import sys; print(sys.base_prefix); print('.'.join(map(str, sys.version_info[:3])))"
_LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "site-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "config-3*", "*.a"
)
_SHARED = re.compile(r"^\s*(?P<soname>\S+) => (?P<path>/\S+)", re.MULTILINE)


class Interpreter(NamedTuple):
    """A CPython of this machine."""

    prefix: Path
    version: str


async def find_interpreter(minor: str) -> Interpreter:
    """The newest self-contained Python of a minor version."""
    for program in _programs(minor):
        done = await run([program, "-I", "-c", _ASK], env={"PYENV_VERSION": ""})
        lines = done.output.split()
        if done.code == 0 and len(lines) == 2 and lines[1].startswith(f"{minor}."):
            interpreter = Interpreter(Path(lines[0]), lines[1])
            if _movable(interpreter, minor):
                return interpreter
    there = sorted({path.name.removeprefix("python") for path in _pyenv().glob("*/bin/python3.*[0-9]")})
    raise RowError(
        f"no Python {minor} to put into an image: Debian's are 3.9 and 3.11, "
        f"and this machine's own are {', '.join(there) or 'none'} (`pyenv install {minor}` adds one)",
        kind="python_missing",
    )


def _movable(interpreter: Interpreter, minor: str) -> bool:
    prefix = interpreter.prefix
    return prefix.resolve() != Path("/usr") and (prefix / "lib" / f"python{minor}" / "os.py").exists()


def _pyenv() -> Path:
    return Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"


def _programs(minor: str) -> Iterator[Path]:
    def patch(path: Path) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", path.parent.parent.name)]

    yield from sorted(_pyenv().glob(f"{minor}.*/bin/python{minor}"), key=patch, reverse=True)
    if program := shutil.which(f"python{minor}"):
        yield Path(program)


async def copy_interpreter(interpreter: Interpreter, minor: str, tree: Path, below: Sequence[Path]) -> None:
    """Lay it into `tree` at `/opt/python`."""
    to = tree / HOME
    library = interpreter.prefix / "lib"
    shutil.copytree(library / f"python{minor}", to / "lib" / f"python{minor}", symlinks=True, ignore=_LEFT_OUT)
    (to / "lib" / f"python{minor}" / "site-packages").mkdir()
    for path in library.glob("libpython3*.so*"):
        shutil.copy2(path, to / "lib" / path.name, follow_symlinks=False)
    (to / "bin").mkdir()
    program = to / "bin" / f"python{minor}"
    shutil.copy2(interpreter.prefix / "bin" / f"python{minor}", program)
    for name in ("python3", "python"):
        (to / "bin" / name).symlink_to(program.name)
    await _copy_libraries(interpreter.prefix, minor, to / "lib", below)
    conf = tree / "etc" / "ld.so.conf.d" / "python.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text(f"/{HOME}/lib\n")


async def _copy_libraries(prefix: Path, minor: str, to: Path, below: Sequence[Path]) -> None:
    binaries = [prefix / "bin" / f"python{minor}", *(prefix / "lib" / f"python{minor}" / "lib-dynload").glob("*.so")]
    listed = await run(["ldd", *binaries])
    for match in _SHARED.finditer(listed.output):
        soname, path = match["soname"], Path(match["path"])
        if not (to / soname).exists() and not any(_has(layer, soname) for layer in below):
            shutil.copy2(path, to / soname)


def _has(layer: Path, soname: str) -> bool:
    return next((layer / "usr" / "lib").glob(f"*-linux-gnu*/{soname}"), None) is not None or any(
        (layer / "usr" / folder / soname).exists() for folder in ("lib", "lib64")
    )
