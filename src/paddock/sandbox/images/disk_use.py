"""What trees take on the disk."""

import os
from collections.abc import Sequence
from pathlib import Path


def disk_bytes(roots: Sequence[Path]) -> int:
    """What trees take on the disk; a file with several names counts once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for root in roots:
        for folder, _folders, files in os.walk(root):
            for path in (folder, *(f"{folder}/{name}" for name in files)):
                info = os.lstat(path)
                key = (info.st_dev, info.st_ino)
                if info.st_nlink == 1 or key not in seen:
                    total += info.st_blocks * 512
                if info.st_nlink > 1:
                    seen.add(key)
    return total
