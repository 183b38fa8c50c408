"""`row` gives a row of the own format; `checked` runs `paddock swe new` and `paddock swe check` over repositories."""

import argparse
import contextlib
import io
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from paddock.cli import swe
from paddock.errors import ConfigError
from paddock.sandbox.images import ImageStore
from paddock.types import JsonObject

PINS = ("iniconfig==2.0.0", "packaging==24.1", "pluggy==1.5.0", "pytest==8.3.3")
DATE = "2020-01-01T00:00:00Z"
WHO = {f"GIT_{one}_{what}": "a" for one in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
ISSUE = """A harbour keeps one berth too many

`free_berths(3, 1)` gives 3, although one of three berths is taken and two are free. It should give 2.
"""
BUGGY = "def free_berths(count, taken):\n    return count\n"
FIXED = "def free_berths(count, taken):\n    left_over_berths = max(0, count - taken)\n    return left_over_berths\n"
OLD = "def test_old():\n    assert True\n"
NEW = f"from harbour import free_berths\n\n\n{OLD}\n\ndef test_free():\n    assert free_berths(3, 1) == 2\n"
AT_TIMES = (
    "\n\nimport random\nimport pytest\n\n\n@pytest.mark.parametrize('one', range(24))\ndef test_at_times(one):\n"
    "    assert free_berths(3, 1) == 2 and random.random() < 0.5\n"
)
BASE = {"harbour.py": BUGGY, "tests/test_harbour.py": OLD}
REPOSITORIES = {
    "sound": (BASE, {"harbour.py": FIXED, "tests/test_harbour.py": NEW}),
    "unsteady": (BASE, {"harbour.py": FIXED, "tests/test_harbour.py": NEW + AT_TIMES}),
    "unfixed": (BASE, {"harbour.py": BUGGY + "\n\n# nothing\n", "tests/test_harbour.py": NEW}),
    "shown": (
        {**BASE, "attic/notes.txt": NEW, "attic/harbour.py": FIXED},
        {"harbour.py": FIXED, "tests/test_harbour.py": NEW},
    ),
}
"""By name: files of the base commit, files of the fix."""
MINE = f"check{os.getpid()}__"
"""Starts the ids of this process's rows, and so its images: other workers of a test run share the store."""


class SweOutput(NamedTuple):
    code: int
    out: str
    err: str


class SweCommand:
    """`paddock swe`, its files in one folder."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.home = home

    def __call__(self, *words: str) -> SweOutput:
        parser = argparse.ArgumentParser()
        swe.add_arguments(parser)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = swe.run(parser.parse_args(words))
            except ConfigError as error:
                return SweOutput(2, out.getvalue(), str(error))
        return SweOutput(code, out.getvalue(), err.getvalue())

    def check(self, *words: str, rows: str = "drafts.jsonl") -> SweOutput:
        out = ("--out", str(self.folder / "rows.jsonl"), "--home", str(self.home))
        return self("check", str(self.folder / rows), *out, *words)

    def write(self, rows: list[Any], name: str = "drafts.jsonl") -> None:
        lines = (one if isinstance(one, str) else json.dumps(one) for one in rows)
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines))

    def lines(self, name: str) -> list[JsonObject]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def findings(self) -> dict[str, dict[str, JsonObject]]:
        """By instance and kind."""
        reports = self.lines("rows.report.jsonl")
        return {one["instance_id"]: {found["kind"]: found for found in one["findings"]} for one in reports}


@pytest.fixture
def command(tmp_path: Path) -> SweCommand:
    return SweCommand(tmp_path, tmp_path / "home")


@pytest.fixture
def row() -> Callable[..., JsonObject]:
    """A row that no image stands behind."""

    def one(**fields: Any) -> JsonObject:
        task = {
            "instance_id": "a__b-1",
            "responses_create_params": {"input": []},
            "problem_statement": ISSUE,
            "image": "a__b-1",
            "patch": "diff --git a/harbour.py b/harbour.py\n--- a/harbour.py\n+++ b/harbour.py\n@@ -1 +1 @@\n-a\n+b\n",
            "test_files": {"tests/test_a.py": "def test_new(): pass\n"},
            "test_command": "pytest -rA tests/test_a.py",
        }
        return {**task, **fields}

    return one


class CheckedRepositories(NamedTuple):
    """What was said of the four repositories, and the command."""

    command: SweCommand
    result: SweOutput

    def findings(self, name: str) -> dict[str, JsonObject]:
        """By kind."""
        return self.command.findings()[f"{MINE}{name}"]

    def row(self, name: str) -> JsonObject:
        drafts = self.command.lines("drafts.jsonl")
        return next(one for one in drafts if one["instance_id"] == f"{MINE}{name}")


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory, images: ImageStore) -> Iterator[CheckedRepositories]:
    """Rows of the four repositories, made and checked."""
    folder = tmp_path_factory.mktemp("swe")
    command = SweCommand(folder, images.home)
    drafts = ["--python", "3.11", "--commit", "HEAD", "--out", str(folder / "drafts.jsonl")]
    drafts += ["--test-command", "python -m pytest -rA {tests}", *(word for pin in PINS for word in ("--pip", pin))]
    for name, (base, fix) in REPOSITORIES.items():
        repository = _repository(folder / name, base, fix)
        assert command("new", str(repository), *drafts, "--id", f"{MINE}{name}").code == 0
    try:
        allowed = ("--local-repository", str(folder))
        yield CheckedRepositories(command, command.check("--runs", "2", "--jobs", "2", *allowed))
    finally:
        _forget(images)


def _repository(folder: Path, base: dict[str, str], fix: dict[str, str]) -> Path:
    folder.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1", **WHO}
    env |= {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
    for message, files in (("start", base), (ISSUE, fix)):
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for words in (["init", "-q", "-b", "main"], ["add", "--all"], ["commit", "-q", "-m", message]):
            subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True)
    return folder


def _forget(store: ImageStore) -> None:
    for name in store.names():
        if name.startswith(MINE):
            store.remove(name)
