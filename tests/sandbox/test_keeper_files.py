"""A keeper opens regular files, and nothing that could block it or be something else."""

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from paddock.sandbox.keeper.files import open_regular


def opening(path: Path, *, write: bool = False, mode: int | None = None) -> bytes:
    """What can be read; or write `new`."""
    with open_regular({"path": str(path), "write": write, "mode": mode}) as fd:
        if write:
            os.write(fd, b"new")
        assert not os.get_inheritable(fd)
        return b"" if write else os.read(fd, 100)


def test_a_file_is_read_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    opening(path, write=True)
    assert opening(path) == b"new"
    path.write_bytes(b"something longer")
    opening(path, write=True)
    assert path.read_bytes() == b"new"


def test_a_mode_that_is_asked_for_is_set_and_another_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    opening(path, write=True, mode=0o751)
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    opening(path, write=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o751


@pytest.mark.parametrize("write", [False, True])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, write: bool) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        opening(tmp_path / "folder", write=write)
    for path in (tmp_path / "fifo", Path("/dev/zero"), Path("/dev/tty")):
        with pytest.raises(OSError):
            opening(path, write=write)
    assert not any(thread.name == "fifo" for thread in threading.enumerate())


def test_errors_are_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(FileNotFoundError):
        opening(tmp_path / "missing")
    with pytest.raises(NotADirectoryError):
        opening(tmp_path / "file" / "below")
    with pytest.raises(OSError) as loop:
        opening(tmp_path / "loop")
    assert loop.value.errno == errno.ELOOP


def test_a_fifo_with_a_writer_is_refused_and_not_read(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    both = os.open(fifo, os.O_RDWR)
    os.write(both, b"kept")
    with pytest.raises(OSError):
        opening(fifo)
    assert os.read(both, 10) == b"kept"
    os.close(both)
