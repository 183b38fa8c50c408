"""Claims about whose failure a file is: the sandbox's own errors are the policy's, those of the host's disk are not."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.sandbox import SandboxError
from paddock.sandbox.files import READ_BYTES, read, write


class KeeperStub:
    """Opens one file of this machine, whatever is asked for."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def open(self, path: str, *, write: bool, mode: int | None = None) -> int:
        return os.open(self._path, os.O_WRONLY if write else os.O_RDONLY)


def sandbox(path: str, upper: Path = Path("/var/tmp")) -> Any:
    """`upper`: on a disk with room."""
    handle = SimpleNamespace(spec=SimpleNamespace(workdir="/testbed"))
    return SimpleNamespace(keeper=KeeperStub(path), handle=handle, folder=SimpleNamespace(upper=upper))


async def test_a_full_disk_of_the_host_is_no_error_of_the_file_and_in_doubt_where_it_has_room() -> None:
    with pytest.raises(SandboxError, match=r"/testbed/a\.txt: the host's disk: No space left") as caught:
        await write(sandbox("/dev/full"), "a.txt", b"text")
    assert (caught.value.kind, caught.value.doubtful) == ("disk_failed", True)
    with pytest.raises(SandboxError) as caught:
        await write(sandbox("/dev/full", Path("/proc")), "a.txt", b"text")  # where nothing is free
    assert (caught.value.kind, caught.value.doubtful) == ("disk_failed", False)


async def test_a_full_shared_memory_is_the_files_error() -> None:
    with pytest.raises(OSError, match="No space left"):
        await write(sandbox("/dev/full"), "/dev/shm/a.txt", b"text")


async def test_other_errors_are_the_files() -> None:
    with pytest.raises(FileNotFoundError):
        await read(sandbox("/no/such/file"), "a.txt")
    with pytest.raises(IsADirectoryError):
        await read(sandbox("/"), "a.txt")


async def test_a_file_is_read_with_a_bound_always(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, READ_BYTES + 1)
    with pytest.raises(OSError, match="more than 256 MiB: give max_bytes"):
        await read(sandbox(str(path)), "a.txt")
    assert await read(sandbox(str(path)), "a.txt", 3) == bytes(3)
