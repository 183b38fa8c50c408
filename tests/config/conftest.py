"""Config files written for a test, and the error that loading them ends in."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from paddock.config import Config, load
from paddock.config.nemo_gym import PYTHON_VARIABLE
from paddock.errors import ConfigError

Write = Callable[[str, str], Path]
Load = Callable[..., Config]
Fail = Callable[..., str]


@pytest.fixture(autouse=True)
def _no_package_of_nemo_gym(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found does not depend on whether there is one."""
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file below the test's folder."""

    def _write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return path

    return _write


@pytest.fixture
def load_text(write: Write, tmp_path: Path) -> Load:
    """The config of one file with that text."""

    def _load(text: str, *overrides: str, **options: Any) -> Config:
        return load([write("config.yaml", text)], overrides, **{"cwd": tmp_path, **options})

    return _load


@pytest.fixture
def fails(load_text: Load) -> Fail:
    """The message that loading a file with that text ends in."""

    def _fails(text: str, *overrides: str, **options: Any) -> str:
        with pytest.raises(ConfigError) as caught:
            load_text(text, *overrides, **options)
        return caught.value.message

    return _fails
