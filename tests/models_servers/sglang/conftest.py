"""A real SGLang, where there is one: a start takes a minute, so all tests share it."""

import os
from collections.abc import Iterator

import pytest
from tests.support.real_sglang import RealSglang, real_sglang

VARIABLE = "PADDOCK_SGLANG_PYTHON"


@pytest.fixture(scope="session")
def sglang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSglang]:
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"{VARIABLE} names no interpreter: scripts/setup_sglang.sh makes one")
    with real_sglang(python, tmp_path_factory.mktemp("sglang")) as found:
        yield found
