"""Claims about where turns are kept: privately, and a bad place is said at start."""

import stat
import tempfile
from pathlib import Path

import pytest

from paddock.errors import ConfigError
from paddock.tokens import TurnStoreSettings


@pytest.fixture
def temporary(tmp_path: Path) -> object:
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path)
    yield
    tempfile.tempdir = before


@pytest.mark.usefixtures("temporary")
def test_without_a_folder_there_is_a_private_one_per_server() -> None:
    one, other = TurnStoreSettings().open("one", "text"), TurnStoreSettings().open("other", "text")
    assert one.folder != other.folder
    assert TurnStoreSettings().open("one", "text").folder == one.folder
    for folder in (one.folder, *list(one.folder.parents)[:2]):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.usefixtures("temporary")
def test_a_temporary_folder_that_others_may_read_is_refused() -> None:
    root = TurnStoreSettings().open("one", "text").folder.parent.parent
    root.chmod(0o755)
    with pytest.raises(ConfigError, match="not a private folder"):
        TurnStoreSettings().open("one", "text")


def test_a_folder_that_can_not_be_made_is_said_at_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"one: turn_store\.folder"):
        TurnStoreSettings(folder=tmp_path / "file" / "turns").open("one", "text")
