"""Publishers' code: checkouts of our own, and interpreters that variables name, with what a test lacks without them."""

import os
from pathlib import Path

import pytest
from tests.resources_servers.swe.publishers.rows import PRO_FILES, REBENCH_PARSERS

from paddock.resources_servers.swe.publishers import PublisherTools

PYTHON, NEMO_GYM, REBENCH = "PADDOCK_SWE_PYTHON", "PADDOCK_NEMO_GYM_PYTHON", "PADDOCK_SWE_REBENCH_V2"


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> PublisherTools:
    """Checkouts with the small project's own scripts."""
    folder = tmp_path_factory.mktemp("publishers")
    files = {f"pro/{name}": text for name, text in PRO_FILES.items()}
    for name, text in {**files, "rebench/lib/agent/log_parsers.py": REBENCH_PARSERS}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return PublisherTools(
        swe_bench_pro=folder / "pro",
        swe_rebench_v2=folder / "rebench",
        python=_named(PYTHON),
        nemo_gym_python=_named(NEMO_GYM),
    )


def _named(variable: str) -> Path | None:
    return Path(value) if (value := os.environ.get(variable)) else None


@pytest.fixture(scope="session")
def packages(tools: PublisherTools) -> Path:
    """The interpreter with swesmith and multi-swe-bench."""
    if tools.python is None:
        pytest.skip(f"{PYTHON} names no interpreter with swesmith 0.0.9 and multi-swe-bench 1.1.2")
    return tools.python


@pytest.fixture(scope="session")
def nemo_gym(tools: PublisherTools) -> Path:
    """The interpreter with nemo-gym."""
    if tools.nemo_gym_python is None:
        pytest.skip(f"{NEMO_GYM} names no interpreter with nemo-gym 0.4.0")
    return tools.nemo_gym_python


@pytest.fixture(scope="session")
def rebench_checkout() -> Path:
    """A checkout of SWE-rebench-V2."""
    folder = _named(REBENCH)
    if folder is None:
        pytest.skip(f"{REBENCH} names no checkout of SWE-rebench/SWE-rebench-V2")
    return folder
