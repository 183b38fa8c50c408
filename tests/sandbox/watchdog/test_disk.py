"""Disk use of a folder that somebody else changes."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from paddock.sandbox.watchdog import disk_use
from paddock.sandbox.watchdog.disk import MOST_DEEP, MOST_DEPTH

BLOCK = b"x" * 65536


def _nest(top: Path, depth: int) -> None:
    """A chain of folders with one file at its end; deeper than a path can say."""
    fd = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("deeper", dir_fd=fd)
        below = os.open("deeper", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    file = os.open("end", os.O_CREAT | os.O_WRONLY, dir_fd=fd)
    os.write(file, BLOCK)
    os.close(file)
    os.close(fd)


def test_allocated_blocks_count(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(BLOCK)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    found = disk_use(tmp_path)
    assert found.files == 3
    assert len(BLOCK) <= found.bytes < 2 * len(BLOCK)


def test_hard_links_count_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(BLOCK)
    alone = disk_use(tmp_path).bytes
    for number in range(9):
        os.link(tmp_path / "file", tmp_path / f"link{number}")
    assert disk_use(tmp_path).bytes == alone


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_bytes(BLOCK)
    upper = tmp_path / "upper"
    upper.mkdir()
    (upper / "link").symlink_to(elsewhere)
    assert disk_use(upper).bytes < len(BLOCK)
    assert disk_use(upper / "link").bytes == 0


def test_depth_is_no_hiding_place(tmp_path: Path, descriptors: Callable[[], list[str]]) -> None:
    _nest(tmp_path, 10 * MOST_DEPTH)
    before = descriptors()
    try:
        found = disk_use(tmp_path)
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "deeper"], check=True)  # too deep for pytest to remove
    assert found.whole
    assert found.files == 10 * MOST_DEPTH + 1
    assert found.bytes >= len(BLOCK)
    assert descriptors() == before


def test_more_deep_folders_than_can_be_held_open_are_told(tmp_path: Path) -> None:
    shared = tmp_path.joinpath(*"d" * (MOST_DEPTH - 1))
    shared.mkdir(parents=True)
    for number in range(MOST_DEEP + 1):
        (shared / str(number)).mkdir()
    assert not disk_use(tmp_path).whole


def test_a_walk_ends_once_it_has_found_too_many(tmp_path: Path, descriptors: Callable[[], list[str]]) -> None:
    for folder in range(20):
        (tmp_path / str(folder)).mkdir()
        for number in range(20):
            (tmp_path / str(folder) / str(number)).touch()
    before = descriptors()
    assert disk_use(tmp_path, most_files=420).files == 420
    assert disk_use(tmp_path, most_files=100).files == 101
    assert disk_use(tmp_path, most_files=10).files == 11
    assert descriptors() == before


def test_a_folder_that_is_gone_has_nothing(tmp_path: Path) -> None:
    assert disk_use(tmp_path / "gone") == (0, 0, True)
