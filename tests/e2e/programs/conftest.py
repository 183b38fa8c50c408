from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.programs import stand


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """A home with the repository's image."""
    yield from stand.program_home()
