"""Wheels for the pins of a recipe, for the image's Python, downloaded by the host's pip; nothing is built on the host.

Cache   one folder per Python minor; a set of pins that it holds needs no network.
Source  a pin of which the index has no fitting wheel comes as a source distribution, to be built inside.
Errors  RowError: a pin that no index has. InfraError: an index that does not answer, no pip here.
"""

import platform
import re
import shutil
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.errors import InfraError, RowError
from paddock.sandbox.images.build.index import Index, normalized, split_pin
from paddock.sandbox.images.build.process import Finished, run

_NOT_FOUND = re.compile(r"No matching distribution found for (?P<pin>\S+)")
_GLIBC = ("2_36", "2_35", "2_34", "2_31", "2_28", "2_27", "2_24", "2_17", "2_12", "2_5")
"""What the base layer's C library runs, newest first."""


class Wheels(NamedTuple):
    """What is installed, in this order; all below the folder that was asked for."""

    wheels: list[Path]
    sources: list[Path]


def with_pip(pins: Sequence[str], minor: str) -> list[str]:
    """The pins, and a pip where they have none: a fixed one, because its behaviour is part of the environment."""
    if any(normalized(split_pin(pin)[0]) == "pip" for pin in pins):
        return list(pins)
    number = int(minor.removeprefix("3."))
    if number <= 6:
        return ["pip==21.3.1", *pins]
    return ["pip==24.0" if number <= 12 else "pip==25.0.1", *pins]


async def fetch_wheels(pins: Sequence[str], minor: str, *, index: Index, kept: Path, to: Path) -> Wheels:
    """Lay the wheels of all pins into `to`."""
    wanted = [split_pin(pin) for pin in pins]
    pins = [f"{name}=={version}" for name, version in wanted]
    sources: list[Path] = []
    done = await _download(pins, minor, to, ["--no-index", "--find-links", str(kept)])
    while done.code and pins:
        done = await _download(pins, minor, to, ["--find-links", str(kept)])
        if done.code:
            pin = await _without_wheel(done, pins, index)
            sources.append(await index.sdist(pin, None))
            pins = [other for other in pins if other != pin]
    return _laid_out(to, kept, sources)


def _laid_out(to: Path, kept: Path, sources: Sequence[Path]) -> Wheels:
    wheels = sorted(to.glob("*.whl"))
    for wheel in wheels:
        if not (kept / wheel.name).exists():
            fresh = kept / f"{uuid.uuid4().hex}.new"
            fresh.write_bytes(wheel.read_bytes())
            fresh.replace(kept / wheel.name)
    return Wheels(wheels, [Path(shutil.copyfile(source, to / source.name)) for source in sources])


async def _without_wheel(done: Finished, pins: Sequence[str], index: Index) -> str:
    """The pin that pip found no wheel of; an index that did not answer looks the same to pip, so we ask it."""
    if "No module named pip" in done.output:
        raise InfraError(f"{sys.executable} has no pip to download wheels with", kind="no_pip", retryable=False)
    match = _NOT_FOUND.search(done.output)
    pin = match["pin"] if match else ""
    if pin not in pins:
        raise InfraError(f"pip could not download wheels:\n{done.tail}", kind="index_unavailable")
    name, version = split_pin(pin)
    files = [file.name for file in await index.files(name)]
    if not any(re.search(rf"-{re.escape(version)}(-|\.(tar|zip|tgz))", file) for file in files):
        raise RowError(f"{pin}: no package index here has that version", kind="no_such_package")
    return pin


async def _download(pins: Sequence[str], minor: str, to: Path, places: Sequence[str]) -> Finished:
    if not pins:
        return Finished(0, "")
    tag = "cp" + minor.replace(".", "")
    machine = platform.machine()
    platforms = [f"manylinux_{glibc}_{machine}" for glibc in _GLIBC]
    platforms += [f"{old}_{machine}" for old in ("manylinux2014", "manylinux2010", "manylinux1", "linux")]
    # Python 3.7 and older mark their builds with an m.
    abis = [tag, *([f"{tag}m"] if int(minor.removeprefix("3.")) < 8 else []), "abi3", "none"]
    argv = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--dest", str(to)]
    argv += ["--python-version", minor, "--implementation", "cp", "--progress-bar", "off", *places]
    argv += [word for abi in abis for word in ("--abi", abi)]
    argv += [word for name in platforms for word in ("--platform", name)]
    return await run([*argv, *pins])
