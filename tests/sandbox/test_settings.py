"""Claims about where sandboxes may live."""

import os
from pathlib import Path

import pytest

from paddock.errors import ConfigError
from paddock.sandbox import SandboxSettings
from paddock.sandbox.settings import HOME_VARIABLE, check_home, default_home


def test_a_home_is_absolute_wherever_it_comes_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(HOME_VARIABLE, "here")
    assert default_home() == Path("here")
    assert SandboxSettings().home == tmp_path / "here"
    assert SandboxSettings(home=Path("there")).home == tmp_path / "there"


@pytest.mark.parametrize("name", ["a,b", "a:b", "a\\b"])
def test_a_path_that_overlayfs_splits_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="comma, colon or backslash"):
        check_home(tmp_path / name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's sandboxes run as another user")
def test_a_home_in_a_closed_folder_is_refused_with_what_would_open_it(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ConfigError, match=r"closed is closed to other users.*chmod o\+x"):
        check_home(closed / "home")
