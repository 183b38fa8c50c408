"""The example rows are what their script makes, are whole, and tell an agent nothing about the fix."""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from paddock.edits import Hunks, parse_unified_diff
from paddock.resources_servers.swe.rows import read
from paddock.types import Row

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "scripts" / "swe_examples"
EXAMPLES = ROOT / "resources_servers" / "swe" / "data" / "example.jsonl"
FOLDERS = sorted(path.parent for path in SOURCES.glob("*/instance.yaml"))
ROWS = {folder.name: json.loads(line) for folder, line in zip(FOLDERS, EXAMPLES.read_text().splitlines(), strict=True)}
VERDICTS = {"tests_fail", "tests_regress", "resolved"}
NAMES = re.compile(r"[A-Za-z_]\w*")


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    assert isinstance(request.param, Path)
    return request.param


@pytest.fixture
def row(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = ROWS[folder.name]
    return found


def changed(patch: str) -> Iterator[Hunks]:
    for edit in parse_unified_diff(patch):
        assert isinstance(edit, Hunks), "the patches of the examples change files, and neither add nor remove any"
        yield edit


def changed_names(patch: str) -> set[str]:
    """The compound names on the changed lines: `kept_items`, `_kept`, not `items`, which any text may have."""
    lines = re.findall(r"^[-+](?![-+])(.*)$", patch, re.MULTILINE)
    return {name for line in lines for name in NAMES.findall(line) if "_" in name}


def test_the_committed_rows_are_what_the_script_makes() -> None:
    script = [sys.executable, "scripts/make_swe_examples.py", "--stdout"]
    made = subprocess.run(script, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert made == EXAMPLES.read_text(), "run python scripts/make_swe_examples.py"


def test_there_are_three_instances_of_three_packages() -> None:
    assert len({row["instance_id"] for row in ROWS.values()}) == 3
    assert len({row["repo"] for row in ROWS.values()}) == 3
    assert {row["licence"] for row in ROWS.values()} <= {"MIT", "BSD-3-Clause", "Apache-2.0"}


def test_a_row_is_read_as_an_instance_with_a_recipe(row: dict[str, Any]) -> None:
    instance = read(Row.from_wire(row))
    assert instance.dataset == "paddock"
    assert instance.image == instance.instance_id == row["instance_id"]
    assert instance.build is not None
    assert instance.build.workdir == instance.workdir
    assert instance.gold_patch.decode() == row["patch"]
    assert {path: text.decode() for path, text in instance.test_files.items()} == row["test_files"]
    assert (instance.fail_to_pass, instance.pass_to_pass) == (row["FAIL_TO_PASS"], row["PASS_TO_PASS"])


def test_every_requirement_is_exact(row: dict[str, Any]) -> None:
    for pin in [row["build"]["sdist"], *row["build"]["pip"]]:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9.]+( --hash=sha256:[0-9a-f]{64})*", pin)
    assert all(" --hash=sha256:" in pin for pin in row["build"]["pip"])
    assert row["build"]["sdist"].startswith(row["repo"] + "==")
    assert re.fullmatch(r"[0-9a-f]{64}", row["build"]["sdist_sha256"])


def test_the_agent_sees_neither_fix_nor_tests(row: dict[str, Any]) -> None:
    seen = json.dumps(read(Row.from_wire(row)).visible())
    hidden = [row["patch"], row["test_command"], *row["test_files"].values(), *row["test_files"]]
    assert [text for text in hidden if json.dumps(text)[1:-1] in seen] == []


def test_the_issue_names_no_place_of_the_fix(row: dict[str, Any]) -> None:
    issue = row["problem_statement"]
    words = set(NAMES.findall(issue))
    for hunks in changed(row["patch"]):
        assert hunks.path not in issue
        assert Path(hunks.path).name not in issue
    assert changed_names(row["patch"]) & words == set()


def test_the_issue_names_no_hidden_test(row: dict[str, Any]) -> None:
    words = set(NAMES.findall(row["problem_statement"]))
    tests = set(re.findall(r"\btest_\w+", " ".join([*row["test_files"].values(), *row["test_files"]])))
    assert words & tests == set()


@pytest.mark.parametrize("name", ["gold", "wrong", "equivalent"])
def test_patches_change_the_package_and_no_test(folder: Path, name: str) -> None:
    patch = (folder / f"{name}.patch").read_text()
    for hunks in changed(patch):
        assert "test" not in hunks.path
        assert hunks.path not in ROWS[folder.name]["test_files"]
        assert hunks.path.endswith(".py")


def test_the_three_patches_are_three_different_changes(folder: Path) -> None:
    texts = [(folder / f"{name}.patch").read_text() for name in ("gold", "wrong", "equivalent")]
    added = [set(re.findall(r"^\+(?!\+)\s*(.*)$", text, re.MULTILINE)) for text in texts]
    assert added[0] != added[1] != added[2] != added[0]


def test_the_verdict_without_each_hunk_is_stated(folder: Path) -> None:
    stated = yaml.safe_load((folder / "instance.yaml").read_text())
    hunks = sum(len(hunks.hunks) for hunks in changed((folder / "gold.patch").read_text()))
    assert len(stated["without_hunk"]) == hunks >= 3
    assert set(stated["without_hunk"]) <= VERDICTS
    assert stated["without_hunk"].count("resolved") <= 1
    assert stated["wrong"] in VERDICTS - {"resolved"}


def test_a_test_is_in_one_list_once(row: dict[str, Any]) -> None:
    both = row["FAIL_TO_PASS"] + row["PASS_TO_PASS"]
    assert len(both) == len(set(both))
    assert len(row["FAIL_TO_PASS"]) >= 15
    assert len(row["PASS_TO_PASS"]) >= 20


def test_every_listed_test_is_of_a_file_that_the_command_runs(row: dict[str, Any]) -> None:
    run = set(row["test_command"].split()[2:])
    listed = {name.split("::")[0] for name in row["FAIL_TO_PASS"] + row["PASS_TO_PASS"]}
    assert listed == run


def test_hidden_files_fail_before_the_fix_and_guards_are_the_packages_own(row: dict[str, Any]) -> None:
    run = set(row["test_command"].split()[2:])
    hidden = run & set(row["test_files"])
    assert {name.split("::")[0] for name in row["FAIL_TO_PASS"]} & hidden
    assert run - hidden, "the package's own tests guard what works"


def test_ids_are_as_the_log_parser_reads_them(row: dict[str, Any]) -> None:
    assert not any(" " in name for name in row["FAIL_TO_PASS"] + row["PASS_TO_PASS"])


def test_hidden_python_files_compile(row: dict[str, Any]) -> None:
    for path, text in row["test_files"].items():
        if path.endswith(".py"):
            compile(text, path, "exec")


def test_some_instance_replaces_a_file_of_the_tree_and_some_truncates_ids() -> None:
    assert any("/fixtures/" in path for row in ROWS.values() for path in row["test_files"])
    cut = [name for row in ROWS.values() for name in row["PASS_TO_PASS"] if "[" in name and not name.endswith("]")]
    assert cut, "parametrised ids with blanks are cut by the official parser, and have to be graded so"


def test_the_rows_are_small() -> None:
    assert len(EXAMPLES.read_bytes()) < 150_000
    assert len({hashlib.sha256(row["patch"].encode()).digest() for row in ROWS.values()}) == 3
