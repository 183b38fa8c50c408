"""Claims about `paddock init`: what it writes works as it stands, for the kinds and the commands that it names."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.cli import main
from paddock.cli.init import KINDS


@pytest.mark.cli
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "environment" else pytest.mark.slow) for kind in KINDS]
)
def test_what_is_written_passes_its_own_test(tmp_path: Path, kind: str) -> None:
    # A process of its own: this one has the folders of other tests on its path.
    subprocess.run([sys.executable, "-m", "paddock", "init", kind, "my_first"], cwd=tmp_path, check=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".", "my_first"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=own, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout


@pytest.mark.cli
@pytest.mark.parametrize("kind", ["environment", "tools"])
def test_its_known_answers_are_paid_by_the_command_that_it_names(tmp_path: Path, kind: str) -> None:
    def paddock(*words: str) -> str:
        command = [sys.executable, "-m", "paddock", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    paddock("init", kind, "first")
    command = (tmp_path / "first" / "first.yaml").read_text().splitlines()[0].removeprefix("# paddock ")
    words = shlex.split(command, comments=True)
    assert "--oracle" in words
    assert "1.000" in paddock(*words)


@pytest.mark.parametrize("name", ["my-task", "class", "a/b", "..", "", "1st", "Upper", "schön", "math", "paddock"])
def test_a_name_that_no_new_module_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "environment", name]) == 2
    assert re.search("as Python's modules have it|has a module of that name", capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert main(["init", "run", "mine"]) == 2
    assert "nothing was written" in capsys.readouterr().err
    assert list((tmp_path / "mine").iterdir()) == []
