"""A program outside that does what a test says; nothing of it may be left."""

import os
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from tests.harness.outside.scripted import Outside

from paddock.harness.programs.installation import InstalledProgram


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    """Nothing of what it ran is left: no process, no folder."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "tmp").mkdir()
    installed = InstalledProgram(
        name="scripted",
        version="1.0",
        packages=["scripted"],
        command_names=["python"],
        sha256={},
        size_mib=1,
        installed_at=datetime.now(UTC),
    )
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("OPENAI_API_KEY", "ours")
    others = set(psutil.Process().children(recursive=True))  # those of other tests go on
    tempfile.tempdir, before = None, tempfile.tempdir
    try:
        yield Outside(installed.at(tmp_path))
    finally:
        tempfile.tempdir = before
    assert [path.name for path in (tmp_path / "tmp").rglob("*")] in ([], [f"paddock-{os.geteuid()}", "scratch"])
    left = set(psutil.Process().children(recursive=True)) - others
    assert not [one for one in left if one.status() != psutil.STATUS_ZOMBIE]
