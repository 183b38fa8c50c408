"""Claims about imports: the package costs nothing until it is used, and each server only what it needs."""

import subprocess
import sys

import pytest

HEAVY = (
    "fastapi",
    "pydantic",
    "httpx",
    "aiohttp",
    "omegaconf",
    "uvicorn",
    "rich",
    "tree_sitter",
    "ray",
    "torch",
    "vllm",
)


def loaded(statement: str) -> set[str]:
    """The heavy packages that a fresh interpreter has after the statement."""
    probe = f"import sys\n{statement}\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    ended = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)
    return set(ended.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded("import paddock") == set()


def test_its_one_door_is_there_when_it_is_asked_for() -> None:
    assert "pydantic" in loaded("import paddock; paddock.connect")


@pytest.mark.parametrize("statement", ["import paddock.config", "import paddock.types, paddock.errors"])
def test_the_lower_rooms_do_without_a_server(statement: str) -> None:
    assert not loaded(statement) & {"fastapi", "uvicorn", "aiohttp", "httpx", "tree_sitter"}


def test_no_plugin_loads_a_training_or_engine_package() -> None:
    plugins = "paddock.resources_servers.pivot, paddock.agents.single_step, paddock.models_servers.openai"
    assert not loaded(f"import {plugins}, paddock.models_servers.replay") & {"ray", "torch", "vllm"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        getattr(__import__("paddock"), "conect")  # noqa: B009 - mypy knows the names
