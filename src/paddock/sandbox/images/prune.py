"""Removes what the store does not need: partials, blobs, layers and stages; not what a living sandbox uses.

Blobs    those of listed images stay (other images share them) unless `everything`; none goes while a pull runs.
Layers   without an image go, unless a sandbox stands on them: they are looked for in the mounts of every process.
Units    bytes, as the disk counts them.
"""

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from paddock.sandbox.images.build.stage import sweep
from paddock.sandbox.images.disk_use import disk_bytes
from paddock.sandbox.images.registry import BlobCache
from paddock.sandbox.images.store import ImageStore
from paddock.sandbox.layers import remove_tree

_MOUNTED = re.compile(rb"/layers/([0-9a-f]{32})/fs")
YOUNG_S = 3600.0
"""A layer without a name may still be being written for so long."""


class PruneReport(NamedTuple):
    """What was removed."""

    blobs: int
    layers: int
    stages: int
    """Of builds that were killed."""
    bytes: int
    busy: bool
    """A pull was running: no blob was touched."""


def prune(store: ImageStore, *, everything: bool = False) -> PruneReport:
    """Remove what nothing needs."""
    stages = sweep(store)
    records = store.records()
    needed = {layer for record in records for layer in record.layers} | layers_in_use()
    layers, freed = 0, stages.bytes
    for folder in _entries(store.home / "layers"):
        if folder.name not in needed and time.time() - folder.stat().st_mtime > YOUNG_S:
            freed += disk_bytes([folder])
            remove_tree(folder)
            layers += 1
    cache = BlobCache(store.home, connections=1)
    with cache.using(alone=True) as alone:
        if not alone:
            return PruneReport(0, layers, stages.n, freed, True)
        needed_blobs = set() if everything else {digest for record in records for digest in _digests(record.origin)}
        blobs = 0
        for path in _entries(cache.folder):
            if f"sha256:{path.name}" not in needed_blobs:
                freed += path.stat().st_blocks * 512
                path.unlink()
                blobs += 1
    return PruneReport(blobs, layers, stages.n, freed, False)


def layers_in_use() -> set[str]:
    """Layers in the mounts of processes that we may see."""
    layers: set[bytes] = set()
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                layers.update(_MOUNTED.findall((process / "mountinfo").read_bytes()))
            except OSError:
                continue
    return {layer.decode() for layer in layers}


def _entries(folder: Path) -> Iterable[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def _digests(origin: dict[str, object]) -> list[str]:
    layers = origin.get("layers")
    return [str(layer) for layer in layers] if isinstance(layers, list) else []
