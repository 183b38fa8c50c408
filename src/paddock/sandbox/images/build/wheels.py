"""Wheels for the pins of a recipe, for the image's Python, downloaded by the host's pip; nothing is built on the host.

Cache   one folder per Python minor; a set of pins that it holds needs no network.
Source  a pin of which the index has no fitting wheel comes as a source distribution, to be built inside.
Hashes  where the pins have some, pip checks each file by them (`--require-hashes`), those of the cache too.
Errors  RowError: a pin that no index has; `pin_digest`: a file that is not what the hashes are of. InfraError: an index
        that does not answer, no pip here.
"""

import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.errors import InfraError, RowError
from paddock.processes.command import CommandResult, run
from paddock.sandbox.images.build.hashes import hashes_of
from paddock.sandbox.images.build.index import Index, normalize, split_pin
from paddock.sandbox.images.recipe import HASH, Recipe
from paddock.whole_file import write_whole

PIPS = {
    "21.3.1": "deaf32dcd9ab821e359cd8330786bcd077604b5c5730c0b096eda46f95c24a2d",
    "24.0": "ba0d021a166865d2265246961bec0152ff124de910c5cc39f1156ce3fa7c69dc",
    "25.0.1": "c46efd13b6aa8279f33f2864459c8ce587ea6a1a59ee20de055868d8f7688f7f",
}
"""The image's own pip where a recipe names none, and the sha256 of its wheel."""
_NOT_FOUND = re.compile(r"No matching distribution found for (?P<pin>\S+)")
_OTHER_HASH = "DO NOT MATCH THE HASHES"
_GLIBC = ("2_36", "2_35", "2_34", "2_31", "2_28", "2_27", "2_24", "2_17", "2_12", "2_5")
"""What the base layer's C library runs, newest first."""


class Wheels(NamedTuple):
    """What is installed, in this order; all below the folder that was asked for."""

    wheels: list[Path]
    sources: list[Path]


def with_pip(recipe: Recipe) -> list[str]:
    """Its pins, and a pip where they have none: a fixed one, because its behaviour is part of the environment."""
    if any(normalize(split_pin(pin)[0]) == "pip" for pin in recipe.pip):
        return recipe.pip
    number = int(recipe.python.removeprefix("3."))
    version = "21.3.1" if number <= 6 else "24.0" if number <= 12 else "25.0.1"
    own = f"pip=={version} {HASH}{PIPS[version]}" if recipe.is_hashed else f"pip=={version}"
    return [own, *recipe.pip]


async def fetch_wheels(pins: Sequence[str], minor: str, *, index: Index, wheel_cache: Path, to: Path) -> Wheels:
    """Lay the wheels of all pins into `to`."""
    wanted = {"{}=={}".format(*split_pin(pin)): hashes_of(pin) for pin in pins}
    sources: list[Path] = []
    done = await _download(wanted, minor, to, ["--no-index", "--find-links", str(wheel_cache)])
    while done.code and wanted:
        done = await _download(wanted, minor, to, ["--find-links", str(wheel_cache)])
        if done.code:
            pin = await _without_wheel(done, wanted, index)
            sources.append(await index.sdist(pin, wanted.pop(pin)))
    return _collect(to, wheel_cache, sources)


def _collect(to: Path, wheel_cache: Path, sources: Sequence[Path]) -> Wheels:
    wheels = sorted(to.glob("*.whl"))
    for wheel in wheels:
        if not (wheel_cache / wheel.name).exists():
            write_whole(wheel_cache / wheel.name, wheel.read_bytes())
    return Wheels(wheels, [Path(shutil.copyfile(source, to / source.name)) for source in sources])


async def _without_wheel(done: CommandResult, pins: Collection[str], index: Index) -> str:
    """The pin that pip found no wheel of; an index that did not answer looks the same to pip, so we ask it."""
    if "No module named pip" in done.output:
        raise InfraError(f"{sys.executable} has no pip to download wheels with", kind="no_pip", retryable=False)
    if _OTHER_HASH in done.output:
        details = done.output.partition(_OTHER_HASH)[2].partition("\n")[2]
        names = ", ".join(re.findall(r"^ +(\S+==\S+) from ", details, re.MULTILINE))
        raise RowError(f"{names}: the file is not what the recipe's hashes are of:\n{details}", kind="pin_digest")
    match = _NOT_FOUND.search(done.output)
    pin = match["pin"] if match else ""
    if pin not in pins:
        raise InfraError(f"pip could not download wheels:\n{done.tail}", kind="index_unavailable")
    name, version = split_pin(pin)
    files = [file.name for file in await index.files(name)]
    if not any(re.search(rf"-{re.escape(version)}(-|\.(tar|zip|tgz))", file) for file in files):
        raise RowError(f"{pin}: no package index here has that version", kind="no_such_package")
    return pin


async def _download(pins: Mapping[str, Sequence[str]], minor: str, to: Path, places: Sequence[str]) -> CommandResult:
    if not pins:
        return CommandResult(0, "")
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
    # Hashes are taken from a file alone; one pin with a hash, and pip wants one of each.
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(" ".join([pin, *(HASH + digest for digest in digests)]) + "\n" for pin, digests in pins.items())
        file.flush()
        return await run([*argv, "--requirement", file.name])
