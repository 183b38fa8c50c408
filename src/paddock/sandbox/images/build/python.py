"""The Python layer over the base layer: one minor version, its standard library compiled.

Name    `paddock/python:<minor>`; kept while the base layer and the recipe of this one stay the same.
Debian  3.11 of the base's own suite; 3.9 of the suite before it, laid beside the base's libraries without touching
        them. Any other minor, or one that the mirror no longer has, is a copy of this machine's (`interpreter`).
Proof   the finished interpreter is run inside, imports what tests need (ssl, sqlite3, ctypes, ...) and loads the
        libraries that wheels expect of a system (C++'s, OpenMP's).
"""

from typing import NamedTuple, cast

from paddock.errors import InfraError, RowError
from paddock.sandbox.images.build.base import (
    ENV,
    PATH,
    SUITE,
    WITHOUT,
    Progress,
    base_image,
    current,
    digest,
    mover,
    own_tree,
    without_merged,
)
from paddock.sandbox.images.build.debian import Apt, Package, unpack, without_copies
from paddock.sandbox.images.build.inside import run_inside
from paddock.sandbox.images.build.interpreter import HOME, Interpreter, copy_interpreter, find_interpreter
from paddock.sandbox.images.build.stage import BuildStage, cache, name_lock, new_stage
from paddock.sandbox.images.store import ImageStore, LocalImage
from paddock.types import JsonObject

SUITES = {"3.11": SUITE, "3.9": "bullseye"}
_MODULES = "bz2, ctypes, decimal, hashlib, lzma, readline, sqlite3, ssl, unittest, venv, zlib"
_LIBRARIES = ("libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1")
_FINISH = """
ldconfig
{python} -c 'import {modules}; import sys; assert sys.version_info[:2] == {minor}'
{python} -c 'import ctypes; [ctypes.CDLL(name) for name in {libraries}]'
{python} -m compileall -q {library} || true
"""


class _PythonLayer(NamedTuple):
    origin: JsonObject
    program: str
    library: str


async def python_image(store: ImageStore, minor: str, progress: Progress) -> LocalImage:
    """Base and one Python, built once per store."""
    name = f"paddock/python:{minor}"
    async with name_lock(store, name):
        base = await base_image(store, progress)
        key = digest(2, minor, base.record.layers, _packages(minor))
        return current(store, name, key) or await _build(store, name, minor, base, key, progress)


def interpreter_of(image: LocalImage) -> str:
    """Path inside of a Python image's interpreter."""
    return str(image.record.origin["program"])


def _packages(minor: str) -> list[str]:
    names = f"python{minor} python{minor}-venv python3 python3-distutils media-types"
    return names.split() if minor in SUITES else []


async def _build(
    store: ImageStore, name: str, minor: str, base: LocalImage, key: str, progress: Progress
) -> LocalImage:
    progress(f"{name}: interpreter")
    with new_stage(store) as stage:
        made = await _lay_out(store, stage, minor, base)
        own_tree(store, stage.tree)
        progress(f"{name}: standard library is compiled")
        script = _FINISH.format(
            python=made.program,
            modules=_MODULES,
            minor=tuple(map(int, minor.split("."))),
            libraries=str(_LIBRARIES).replace("'", '"'),
            library=made.library,
        )
        done = await run_inside(stage, base.layers, script, payload_id=store.payload_id, limits=store.limits, env=ENV)
        if done.code:
            raise RowError(f"Python {minor} does not run in an image here:\n{done.tail}", kind="python_missing")
        path = f"/{HOME}/bin:{PATH}" if made.program.startswith(f"/{HOME}") else PATH
        return store.add(
            name,
            mover(stage.tree),
            base=base.record.name,
            env={"PATH": path},
            origin={"key": key, "program": made.program, **made.origin},
        )


async def _lay_out(store: ImageStore, stage: BuildStage, minor: str, base: LocalImage) -> _PythonLayer:
    if minor in SUITES:
        try:
            return await _debian(store, stage, minor, base)
        except InfraError:
            try:
                interpreter = await find_interpreter(minor)
            except RowError:
                interpreter = None
            if interpreter is None:
                raise
    else:
        interpreter = await find_interpreter(minor)
    return await _copy(stage, interpreter, minor, base)


async def _debian(store: ImageStore, stage: BuildStage, minor: str, base: LocalImage) -> _PythonLayer:
    apt = Apt(stage.folder("apt"), cache(store, "debian"), SUITES[minor])
    await apt.start()
    below = {file.split("_")[0] for file in cast(list[str], base.record.origin["packages"])}
    packages: list[Package] = await apt.closure(_packages(minor), without=below | WITHOUT)
    await unpack(await apt.fetch(packages), stage.tree)
    without_merged(stage.tree)
    without_copies(stage.tree, base.layers)
    origin: JsonObject = {"suite": SUITES[minor], "packages": [package.file for package in packages]}
    return _PythonLayer(origin, f"/usr/bin/python{minor}", f"/usr/lib/python{minor} /usr/lib/python3")


async def _copy(stage: BuildStage, interpreter: Interpreter, minor: str, base: LocalImage) -> _PythonLayer:
    await copy_interpreter(interpreter, minor, stage.tree, base.layers)
    return _PythonLayer({"version": interpreter.version}, f"/{HOME}/bin/python{minor}", f"/{HOME}/lib/python{minor}")
