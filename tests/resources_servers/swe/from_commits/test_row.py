"""Rows made of commits."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.cli import swe
from paddock.errors import ConfigError, RowError
from paddock.resources_servers.swe.from_commits import RowRequest, RowWithNotes, make_row, open_history
from paddock.resources_servers.swe.from_commits.row import name_of, notes, without_trailers
from paddock.resources_servers.swe.rows import read
from paddock.types import Row

Make = Callable[..., RowWithNotes]


@pytest.fixture
def make(repository: Any) -> Make:
    def made(**more: Any) -> RowWithNotes:
        fields = {"commit": "HEAD", "test_command": "pytest -rA {tests}", "python": "3.11", **more}
        wish = RowRequest(repository=str(repository.folder), **fields)
        with open_history(wish.repository) as history:
            return make_row(wish, history)

    return made


def whole(row: dict[str, Any]) -> Row:
    """A row as it is once its lists are known."""
    return Row.from_wire({**row, "FAIL_TO_PASS": ["tests/test_berths.py::test_free"], "PASS_TO_PASS": []})


def test_a_fix_becomes_a_row_that_the_server_reads(repository: Any, make: Make) -> None:
    made = make(pip=["pytest==8.3.3"], install="pip install -e .")
    instance = read(whole(made.row))
    assert instance.dataset == "paddock"
    assert instance.build is not None and instance.build.git is not None
    assert instance.build.git.repository == str(repository.folder)
    assert instance.build.git.commit == repository.git("rev-parse", "HEAD^")
    assert (instance.build.python, instance.build.pip, instance.build.install) == (
        "3.11",
        ["pytest==8.3.3"],
        "pip install -e .",
    )
    assert set(instance.test_files) == {"tests/conftest.py", "tests/data/berths.txt", "tests/test_berths.py"}
    assert instance.test_files["tests/data/berths.txt"] == b"3\r\n"
    assert instance.test_command == "pytest -rA tests/test_berths.py"
    assert b"harbour/berths.py" in instance.gold_patch
    assert b"CHANGES.md" in instance.gold_patch
    assert b"tests/" not in instance.gold_patch
    json.dumps(made.row)


def test_a_row_without_its_lists_is_refused(make: Make) -> None:
    with pytest.raises(RowError, match="FAIL_TO_PASS"):
        read(Row.from_wire(make().row))


def test_the_message_is_the_issue_without_its_trailers(make: Make) -> None:
    issue = make().row["problem_statement"]
    assert issue.startswith("Count the last mooring\n")
    assert issue.endswith("to see it.\n")


def test_an_issue_of_the_users_replaces_the_message(make: Make) -> None:
    assert make(issue="  One berth is missing.\n\n").row["problem_statement"] == "One berth is missing.\n"


def test_trailers_end_where_prose_begins() -> None:
    message = "Fix it\n\nReviewed-by: nobody so far, sadly.\n\nThe end.\n\nCo-authored-by: a <b>\nChange-Id: I1\n"
    assert without_trailers(message) == "Fix it\n\nReviewed-by: nobody so far, sadly.\n\nThe end."


def test_removed_or_binary_tests_travel_as_a_patch(repository: Any, make: Make) -> None:
    files = {"tests/conftest.py": None, "tests/data/x.bin": b"\0\xff\r\n", "harbour/berths.py": "free = int\n"}
    repository.commit("a" * 99, files)
    made = make(test_command="pytest -rA tests")
    assert "test_files" not in made.row
    instance = read(whole(made.row))
    assert b"GIT binary patch" in instance.test_patch
    assert b"deleted file mode" in instance.test_patch
    assert b"berths.py" not in instance.test_patch


def test_patterns_decide_what_is_hidden(make: Make) -> None:
    made = make(tests=["CHANGES.md"], test_command="cat {tests}")
    assert list(made.row["test_files"]) == ["CHANGES.md"]
    assert made.row["test_command"] == "cat CHANGES.md"
    assert "tests/test_berths.py" in made.row["patch"]


def test_commits_that_can_be_no_task_are_refused_with_the_reason(repository: Any, make: Make) -> None:
    repository.commit("code", {"harbour/berths.py": "free = int\n"})
    with pytest.raises(ConfigError, match=r"changes no test.*harbour/berths.py.*--tests"):
        make()
    repository.commit("tests", {"tests/test_more.py": "pass\n"})
    with pytest.raises(ConfigError, match=r"nothing but tests: tests/test_more\.py"):
        make()
    repository.commit("data", {"tests/data/more.txt": "4\n", "harbour/berths.py": "free = abs\n"})
    with pytest.raises(ConfigError, match=r"none of tests/data/more\.txt looks like one"):
        make()


def test_a_submodule_is_refused(repository: Any, make: Make) -> None:
    head = repository.git("rev-parse", "HEAD")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{head},vendored")
    repository.git("commit", "-q", "-m", "vendored")
    with pytest.raises(ConfigError, match="submodule vendored"):
        make()


def test_a_password_in_a_url_does_not_reach_a_row() -> None:
    with pytest.raises(ValueError, match="holds a password"):
        RowRequest(repository="https://me:secret@host/o/n", commit="x", test_command="x", python="3.11")


@pytest.mark.parametrize(
    ("repository", "name"),
    [
        ("https://host/quay/harbour.git", "quay__harbour-0123456789ab"),
        ("git@host:quay/harbour.git", "quay__harbour-0123456789ab"),
        ("/home/me/src/harbour/", "local__harbour-0123456789ab"),
        ("./my harbour", "local__my-harbour-0123456789ab"),
    ],
)
def test_instances_are_named_after_repository_and_commit(repository: str, name: str) -> None:
    assert name_of(repository, "0123456789abcdef") == name


def test_notes_name_what_gives_the_fix_away() -> None:
    issue = "berths.py is wrong: free() gives one too few, see tests/test_berths.py, and notberths.pyx, which is fine."
    found = notes(issue, ["harbour/berths.py", "other.py"], ["tests/test_berths.py"])
    assert found == [
        "the problem statement names harbour/berths.py, which the fix changes",
        "the problem statement names tests/test_berths.py, which is hidden",
    ]
    assert "5 characters" in notes("Fix it"[:5], ["a.py"], [])[0]


@pytest.mark.parametrize("pin", ["pytest", "pytest>=8", "pytest==8 ; x", "-e ."])
def test_requirements_have_to_be_exact(make: Make, pin: str) -> None:
    with pytest.raises(ValueError, match="pip"):
        make(pip=[pin])


def command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    swe.add_arguments(parser)
    return swe.run(parser.parse_args(["new", *words]))


def test_the_command_adds_rows_to_a_file_and_says_its_notes(
    repository: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "issue.md").write_text("berths.py is wrong")
    (tmp_path / "pins.txt").write_text("# tests\npytest==8.3.3\n\npluggy==1.5.0  # of pytest\n")
    words = [str(repository.folder), "--commit", "HEAD", "--python", "3.11", "--test-command", "pytest -rA {tests}"]
    words += ["--issue", str(tmp_path / "issue.md"), "--requirements", str(tmp_path / "pins.txt")]
    out = tmp_path / "rows.jsonl"
    for name in ("a__b-1", "a__b-2"):
        assert command(*words, "--pip", "iniconfig==2.0.0", "--id", name, "--out", str(out)) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["instance_id"] for row in rows] == ["a__b-1", "a__b-2"]
    assert rows[0]["build"]["pip"] == ["iniconfig==2.0.0", "pytest==8.3.3", "pluggy==1.5.0"]
    shown = capsys.readouterr()
    digests = [f"--hash=sha256:{digit * 64}" for digit in "01"]
    (tmp_path / "pins.txt").write_text(" \\\n    ".join(["pluggy==1.5.0", *digests]) + "\n")
    assert command(*words, "--out", str(tmp_path / "hashed.jsonl")) == 0
    hashed = json.loads((tmp_path / "hashed.jsonl").read_text())
    assert hashed["build"]["pip"] == [" ".join(["pluggy==1.5.0", *digests])]
    check = f"paddock swe check {out} --out rows.jsonl --local-repository {repository.folder}"
    assert shown.out.splitlines() == [f"{out}: {name}; next: {check}" for name in ("a__b-1", "a__b-2")]
    assert "names harbour/berths.py" in shown.err
    capsys.readouterr()
    assert command(*words) == 0
    assert json.loads(capsys.readouterr().out)["problem_statement"] == "berths.py is wrong\n"


@pytest.mark.parametrize(
    ("option", "value"),
    [("--python", "2.7"), ("--pip", "x"), ("--id", ""), ("--issue", "/nowhere.md"), ("--requirements", "/nowhere.txt")],
)
def test_a_mistake_in_the_command_is_a_config_error(repository: Any, option: str, value: str) -> None:
    words = {"--commit": "HEAD", "--python": "3.11", "--test-command": "x", option: value}
    with pytest.raises(ConfigError, match="needs NAME==VERSION.* is named, too" if option == "--pip" else None):
        command(str(repository.folder), *[word for pair in words.items() for word in pair])
