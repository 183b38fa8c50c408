"""What a commit did, read from a folder and from a clone, and nothing of the repository run."""

from pathlib import Path
from typing import Any

import pytest

from paddock.errors import ConfigError
from paddock.resources_servers.swe.from_commits import open_history


def test_a_fix_is_a_commit_against_its_parent(repository: Any) -> None:
    with open_history(str(repository.folder)) as history:
        fix = history.fix("HEAD")
    assert fix.commit == repository.git("rev-parse", "HEAD")
    assert fix.base == repository.git("rev-parse", "HEAD^")
    assert fix.message.startswith("Count the last mooring\n")
    assert {(change.path, change.status) for change in fix.changes} == {
        ("CHANGES.md", "A"),
        ("harbour/berths.py", "M"),
        ("tests/conftest.py", "A"),
        ("tests/data/berths.txt", "A"),
        ("tests/test_berths.py", "M"),
    }


def test_a_clone_says_the_same_and_is_gone(repository: Any) -> None:
    with open_history(str(repository.folder)) as here:
        expected = here.fix("main")
    with open_history(repository.folder.as_uri()) as clone:
        assert clone.fix(expected.commit) == expected
    assert not clone.folder.exists()


def test_a_patch_of_some_paths_applies_to_the_parent(repository: Any, tmp_path: Path) -> None:
    with open_history(str(repository.folder)) as history:
        fix = history.fix("HEAD")
        patch = history.patch(fix, ["harbour/berths.py"])
    assert b"tests/" not in patch
    (tmp_path / "fix.patch").write_bytes(patch)
    repository.git("checkout", "-q", fix.base)
    repository.git("apply", str(tmp_path / "fix.patch"))
    assert (repository.folder / "harbour/berths.py").read_text().endswith("return n\n")


def test_a_path_is_no_pattern(repository: Any) -> None:
    repository.commit("odd", {"a*.py": "1\n", "ab.py": "2\n"})
    with open_history(str(repository.folder)) as history:
        patch = history.patch(history.fix("HEAD"), ["a*.py"])
    assert b"ab.py" not in patch


def test_a_merge_is_what_it_brought_to_its_first_parent(repository: Any) -> None:
    repository.git("checkout", "-q", "-b", "side", "HEAD^")
    repository.commit("side", {"side.py": "1\n"})
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    with open_history(str(repository.folder)) as history:
        assert [change.path for change in history.fix("HEAD").changes] == ["side.py"]


def test_commands_that_the_repository_configures_are_not_run(repository: Any, tmp_path: Path) -> None:
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    for key in (
        "diff.external",
        "diff.x.textconv",
        "diff.x.command",
        "filter.x.smudge",
        "core.pager",
        "core.fsmonitor",
    ):
        repository.git("config", key, str(trap))
    repository.git("config", "filter.x.clean", "cat")
    (repository.folder / ".git/info/attributes").write_text("*.py diff=x filter=x\n")
    repository.commit("attributes", {".gitattributes": "*.py diff=x filter=x\n", "a.py": "1\n"})
    (tmp_path / "sprung").unlink(missing_ok=True)
    with open_history(str(repository.folder)) as history:
        fix = history.fix("HEAD")
        assert b"+1" in history.patch(fix, ["a.py"])
        assert history.content(fix, "a.py") == b"1\n"
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["no-such-thing", "--all", "0" * 40, "HEAD:tests"])
def test_a_name_that_is_no_commit_is_refused(repository: Any, name: str) -> None:
    with open_history(str(repository.folder)) as history, pytest.raises(ConfigError, match="has no commit"):
        history.fix(name)


def test_the_first_commit_is_refused(repository: Any) -> None:
    with open_history(str(repository.folder)) as history, pytest.raises(ConfigError, match="first commit"):
        history.fix("HEAD^")


@pytest.mark.parametrize("source", ["/nowhere/at/all", "ext::sh -c true"])
def test_what_is_no_repository_is_refused(source: str) -> None:
    with pytest.raises(ConfigError, match="could not be cloned"), open_history(source):
        pass


def test_a_folder_without_a_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no git repository"), open_history(str(tmp_path)):
        pass
