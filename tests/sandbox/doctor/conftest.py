"""A home where the payload's user can pass, unlike pytest's own folders."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="paddock-doctor-", dir="/var/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)
