"""Reads a `.sif`: its file system as a tree, its environment and working folder as its builder recorded them.

Unpacked as the payload's user, never as root: what is in a `.sif` comes from anyone. Its list of files is added up
         before: `ImageInvalid` where it has more than the image's limits.
Found    the parts by `apptainer sif list`, what it says of itself by `inspect`; the OCI config inside knows best.
"""

import asyncio
import json
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

from paddock.processes.command import run
from paddock.sandbox.failures import ImageInvalid
from paddock.sandbox.images.sif.make import check_apptainer
from paddock.sandbox.images.unpack.limits import Budget, ImageLimits, full_disk
from paddock.types import Json, JsonObject

_PART = re.compile(r"^\d+\s*\|[^|]*\|[^|]*\|(?P<start>\d+)-(?P<end>\d+)\s*\|(?P<kind>.*)$", re.MULTILINE)
_SUMMED = re.compile(r"^(\d+) (\d+)$", re.MULTILINE)
_EXPORT = re.compile(r"^\s*export\s+(?P<pair>[A-Za-z_]\w*=.*)$", re.MULTILINE)
_OWN = (".singularity.d", "singularity", "environment", ".exec", ".run", ".shell", ".test")
"""What Apptainer adds to a tree; links unless it is the first."""
_MAX_JSON = 8 << 20
_SQUASHED = "system.squashfs"
_SUM = (
    f"unsquashfs -lln -no-progress {_SQUASHED} | "
    "awk '/^[-bcdlps]/ {n++; if (/^-/) bytes += $3} END {printf \"%.0f %.0f\", n, bytes}'"
)
"""Entries and bytes of files. A name with a line break can only add to them."""
_UNPACK_S = 1800.0


class SifParts(NamedTuple):
    """What a `.sif` is made of."""

    start: int
    """Where its file system begins, in bytes."""
    size: int
    env: dict[str, str]
    workdir: str
    labels: dict[str, str]


async def read_sif(path: Path) -> SifParts:
    """Look into a `.sif`."""
    check_apptainer()
    program = shutil.which("apptainer") or "singularity"
    listed = await run([program, "sif", "list", path], timeout_s=60.0)
    parts = [(int(part["start"]), int(part["end"]), part["kind"]) for part in _PART.finditer(listed.output)]
    systems = [part for part in parts if "Squashfs" in part[2]]
    if listed.code != 0 or not systems:
        raise ImageInvalid(f"{path} is no .sif with a squashfs file system:\n{listed.tail}", kind="sif")
    start, end, _kind = systems[0]
    config = next((data for part in parts if "JSON" in part[2] and (data := _config(path, *part[:2]))), None)
    attributes = await asyncio.to_thread(_inspect, path)
    env = _pairs(config.get("Env") or []) if config else _exported_env(attributes)
    workdir = (config or {}).get("WorkingDir") or "/"
    return SifParts(start, end - start, env, workdir, attributes.get("labels") or {})


async def unpack_sif(path: Path, parts: SifParts, folder: Path, *, owner: int, limits: ImageLimits) -> None:
    """Unpack into `folder/fs`, which `owner` may write; `folder` is ours and may be entered."""
    squashed = folder / _SQUASHED
    budget = Budget(limits, str(folder))
    budget.reserve(parts.size, f"{path}: its file system")
    await asyncio.to_thread(_copy, path, squashed, parts)
    dropped = ["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups", "--no-new-privs"]
    dropped = dropped if os.geteuid() == 0 else []
    # By names below the working folder: the payload's user may not be able to walk there.
    summed = await run([*dropped, "bash", "-o", "pipefail", "-c", _SUM], cwd=folder, timeout_s=_UNPACK_S)
    sizes = _SUMMED.search(summed.output)
    if summed.code != 0 or sizes is None:
        raise ImageInvalid(f"{path}: its files can't be listed:\n{summed.tail}", kind="sif")
    budget.add_entries(int(sizes[1]), str(path))
    budget.reserve(int(sizes[2]), f"{path}: its files")
    command = ["unsquashfs", "-no-progress", "-no-xattrs", "-force", "-dest", "fs", _SQUASHED]
    done = await run([*dropped, *command], cwd=folder, timeout_s=_UNPACK_S)
    squashed.unlink()
    # 2: some entry could not be kept as it is, such as a device node.
    if done.code not in (0, 2):
        if "No space left" in done.output:
            raise full_disk(f"{path}: no space left to unpack it")
        raise ImageInvalid(f"{path} can't be unpacked:\n{done.tail}", kind="sif")
    for name in _OWN:
        added = folder / "fs" / name
        if added.is_symlink():
            added.unlink()
        elif name == _OWN[0]:
            shutil.rmtree(added, ignore_errors=True)


def _copy(path: Path, target: Path, parts: SifParts) -> None:
    with path.open("rb") as source, target.open("wb") as copy:
        source.seek(parts.start)
        left = parts.size
        while left and (chunk := source.read(min(left, 1 << 20))):
            copy.write(chunk)
            left -= len(chunk)
    target.chmod(0o644)


def _config(path: Path, start: int, end: int) -> JsonObject | None:
    """A part that is an OCI config."""
    with path.open("rb") as file:
        file.seek(start)
        try:
            config = json.loads(file.read(min(end - start, _MAX_JSON)))
        except (ValueError, RecursionError):
            return None
    return config if isinstance(config, dict) and ("Env" in config or "WorkingDir" in config) else None


def _inspect(path: Path) -> JsonObject:
    from spython.main import get_client

    attributes: Json = get_client(quiet=True).inspect(str(path), quiet=True)
    return attributes.get("attributes") or {} if isinstance(attributes, dict) else {}


def _exported_env(attributes: JsonObject) -> dict[str, str]:
    """What the environment scripts set plainly; a value that needs a shell is left out."""
    pairs = []
    for _name, script in sorted((attributes.get("environment") or {}).items()):
        for line in _EXPORT.finditer(script):
            try:
                words = shlex.split(line["pair"])
            except ValueError:
                continue
            if len(words) == 1 and not set(words[0]) & set("$`"):
                pairs.append(words[0])
    return _pairs(pairs)


def _pairs(lines: list[str]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in lines if "=" in line)
