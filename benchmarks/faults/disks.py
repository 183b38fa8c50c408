"""A small disk of a campaign's own (root's to mount), in memory or in a file; and filling it."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHUNK = bytes(1 << 20)


@contextmanager
def small_disk(folder: Path, size_mib: int) -> Iterator[None]:
    """Over `folder`, which is made where it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size_mib}m,mode=711,uid={os.geteuid()}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)
    try:
        yield
    finally:
        # Lazily: what was left over may still use it, and is counted, not hidden by an error.
        subprocess.run(["umount", "-l", str(folder)], check=True)


class Ballast:
    """A file that takes all the room there is."""

    def __init__(self, disk: Path) -> None:
        self.path = disk / "ballast"

    def fill(self) -> None:
        try:
            with self.path.open("ab", buffering=0) as file:
                while file.write(CHUNK):
                    pass
        except OSError:
            return

    def free(self) -> None:
        self.path.unlink(missing_ok=True)


@contextmanager
def loop_disk(folder: Path, size_mib: int) -> Iterator[None]:
    """An ext4 of its own over `folder`, in a file beside it that takes no more room than is written."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix="disk-", dir=folder.parent) as file:
        file.truncate(size_mib << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", file.name], check=True)
        subprocess.run(["mount", "-o", "loop", file.name, str(folder)], check=True)
        folder.chmod(0o711)
        try:
            yield
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)  # as above
