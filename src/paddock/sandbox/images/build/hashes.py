"""Hashes of pins, as requirement files have them: `name==version --hash=sha256:HEX`, one for each file that may come.

Which   the files of a release that an image may take: wheels for its Python on Linux (x86_64, aarch64; glibc), and the
        source distribution.
Trust   they are what the package indexes state on the day that the recipe is made; from then on nothing else is taken.
"""

import asyncio
import re
from collections.abc import Sequence

from paddock.errors import RowError
from paddock.sandbox.images.build.index import Index, IndexFile, is_source, normalize, split_pin

_PLATFORM = re.compile(r"any|(many)?linux\S*_(x86_64|aarch64)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def hashes_of(pin: str) -> list[str]:
    """The sha256 digests that a pin has."""
    return _HASH.findall(pin)


async def with_hashes(pins: Sequence[str], minor: str, index: Index) -> list[str]:
    """The pins with their hashes; RowError `no_hash` where no index states one of any fitting file."""
    return list(await asyncio.gather(*(_add_hashes(pin, minor, index) for pin in pins)))


async def _add_hashes(pin: str, minor: str, index: Index) -> str:
    name, version = split_pin(pin)
    files = await index.files(name)
    digests = {file.sha256 for file in files if file.sha256 and _fits(file, name, version, minor)}
    if not digests:
        raise RowError(f"no package index here states a sha256 of {pin}", kind="no_hash")
    return " ".join([pin, *(f"--hash=sha256:{digest}" for digest in sorted(digests))])


def _fits(file: IndexFile, name: str, version: str, minor: str) -> bool:
    if not file.name.endswith(".whl"):
        return is_source(file.name, name, version)
    parts = file.name.removesuffix(".whl").split("-")
    if len(parts) < 5 or (normalize(parts[0]), parts[1]) != (normalize(name), version):
        return False
    *_, python, abi, system = parts
    tags = python.split(".")
    own = f"cp{minor.replace('.', '')}" in tags or abi == "abi3" or any(tag.startswith("py") for tag in tags)
    return own and _PLATFORM.fullmatch(system.split(".")[0]) is not None
