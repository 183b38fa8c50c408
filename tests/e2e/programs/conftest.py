from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.programs import calc_fixture


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """A home with the repository's image."""
    yield from calc_fixture.program_home()
