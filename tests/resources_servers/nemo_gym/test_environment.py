"""Claims about the environment of a server: what it requires, and who makes it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.gym_rewards import interpreter

from paddock.config.nemo_gym import PYTHON_VARIABLE
from paddock.errors import ConfigError
from paddock.processes import run
from paddock.resources_servers.nemo_gym.config import NemoGymConfig
from paddock.server.nemo_gym import environment
from paddock.server.nemo_gym.environment import Requirements, requirements

ENDLESS = "import pathlib, time; pathlib.Path({began!r}).touch(); time.sleep(60)"


@pytest.fixture
def has_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Whether an installation has begun: by a uv that never ends."""
    file, uv = tmp_path / "began", tmp_path / "path" / "uv"
    uv.mkdir(parents=True)
    (uv / "__init__.py").touch()
    (uv / "__main__.py").write_text(ENDLESS.format(began=str(file)))
    monkeypatch.setenv("PYTHONPATH", str(uv.parent))
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path))
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    return file.exists


@pytest.mark.timeout(30)
async def test_who_waits_for_another_gives_up(has_begun: Callable[[], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    config = NemoGymConfig(server="any")
    first = asyncio.create_task(environment.find_command(config))
    while not has_begun():
        await asyncio.sleep(0.02)
    try:
        monkeypatch.setattr(environment, "LOCK_TIMEOUT_S", 0.3, raising=False)
        with pytest.raises(ConfigError, match="another process has been at it"):
            await asyncio.wait_for(environment.find_command(config), 5)
    finally:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


PROJECT = """
[project]
name = "a-server"
version = "0.0.0"
dependencies = ["nemo-gym", "beside-it"]

[tool.uv.sources]
nemo-gym = { path = "../..", editable = true }
beside-it = { path = "beside" }
"""


def test_requirements_are_the_lines_beside_nemo_gyms_own(tmp_path: Path) -> None:
    assert requirements(tmp_path) == Requirements()
    text = "# of ours\n-e nemo-gym[dev] @ ../../\nregex>=2024 # words\n\naiohttp\n"
    (tmp_path / "requirements.txt").write_text(text)
    assert requirements(tmp_path) == Requirements(["aiohttp", "regex>=2024"])


def test_or_those_of_a_project_and_not_both(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text(PROJECT)
    assert requirements(tmp_path) == Requirements(project=project)
    (tmp_path / "requirements.txt").touch()
    with pytest.raises(ConfigError, match="keep one"):
        requirements(tmp_path)


@pytest.mark.long  # installs NeMo-Gym once more
@pytest.mark.timeout(600)
async def test_a_project_is_installed_with_its_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter(PYTHON_VARIABLE, "nemo-gym 0.4.0")
    server, beside = tmp_path / "server", tmp_path / "server" / "beside"
    beside.mkdir(parents=True)
    (server / "app.py").touch()
    (server / "pyproject.toml").write_text(PROJECT)
    (beside / "pyproject.toml").write_text('[project]\nname = "beside-it"\nversion = "3.0"\n')
    (beside / "beside_it.py").write_text("WORD = 'here'\n")
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    command = await environment.find_command(NemoGymConfig(server="a", folder=server))
    found = await run([command.python, "-c", "import nemo_gym, beside_it; print(beside_it.WORD)"])
    assert (found.code, found.tail.strip()) == (0, "here")
