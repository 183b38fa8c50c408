"""Claims about fixes as changes of text: made in order they give the text after, and each old text stands once."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.edits import PatchError
from paddock.harness.native import FileFix, changes
from paddock.types import Fix

LINES = st.lists(st.sampled_from(["", "a", "b", "  a", "end", "x = 1", "+++ b/x", "@@ -1 +1 @@", "é\r"]), max_size=12)


def text_of(lines: list[str], *, newline: bool) -> str:
    text = "".join(line + "\n" for line in lines)
    return text if newline else text.removesuffix("\n")


def diff(folder: Path, before: dict[str, str], after: dict[str, str]) -> bytes:
    """What git says of two trees."""
    for side, files in (("a", before), ("b", after)):
        for name, text in files.items():
            path = folder / side / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
    for side in ("a", "b"):
        (folder / side).mkdir(exist_ok=True)
    command = ["git", "diff", "--no-index", "--find-renames", "--no-prefix", "a", "b"]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=False).stdout


def made(change: FileFix, before: str) -> str:
    """The text after the replacements, made as an editor makes them."""
    text = before
    for replacement in change.replacements:
        if replacement.old:
            assert text.count(replacement.old) == 1
            assert text[: text.index(replacement.old)].count("\n") == replacement.line - 1
        else:
            assert not text
        text = text.replace(replacement.old, replacement.new) if replacement.old else replacement.new
    return text


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=LINES, new=LINES, old_newline=st.booleans(), new_newline=st.booleans())
def test_the_replacements_of_any_change_give_the_text_after(
    tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str], old_newline: bool, new_newline: bool
) -> None:
    before, after = text_of(old, newline=old_newline), text_of(new, newline=new_newline)
    patch = diff(tmp_path_factory.mktemp("trees"), {"f": before}, {"f": after})
    if not patch:
        assert before == after
        return
    (change,) = changes(Fix(patch=patch, workdir="/w", files={"f": before}))
    assert (change.kind, change.path, change.to, change.text) == ("modify", "f", None, after)
    assert made(change, before) == after


def test_files_that_come_go_and_move_are_told(tmp_path: Path) -> None:
    body = "".join(f"line {number}\n" for number in range(30))
    patch = diff(
        tmp_path,
        {"gone.txt": "old\n", "here.txt": body},
        {"fresh.txt": "new", "there/here.txt": body.replace("line 3\n", "line three\n")},
    )
    found = {change.path: change for change in changes(Fix(patch=patch, workdir="/w", files={"here.txt": body}))}
    assert found["fresh.txt"].kind == "add"
    assert found["fresh.txt"].text == "new"
    assert found["gone.txt"].kind == "delete"
    assert (found["here.txt"].kind, found["here.txt"].to) == ("modify", "there/here.txt")
    assert made(found["here.txt"], body) == body.replace("line 3\n", "line three\n")


def test_a_file_of_unknown_text_is_changed_by_its_hunks() -> None:
    patch = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -3,2 +3,2 @@\n kept\n-old\n+new\n"
    (change,) = changes(Fix(patch=patch, workdir="/w"))
    assert change.text is None
    assert change.replacements == [(3, "kept\nold\n", "kept\nnew\n")]


def test_a_file_that_becomes_executable_is_told() -> None:
    patch = b"diff --git a/run b/run\nnew file mode 100755\n--- /dev/null\n+++ b/run\n@@ -0,0 +1 @@\n+#!/bin/sh\n"
    (change,) = changes(Fix(patch=patch, workdir="/w"))
    assert (change.kind, change.executable) == ("add", True)


@pytest.mark.parametrize(
    "patch", [b"diff --git a/f b/f\nBinary files a/f and b/f differ\n", b"\xff\xfe", b"no patch at all\n"]
)
def test_what_no_editor_of_text_can_make_is_refused(patch: bytes) -> None:
    with pytest.raises((ValueError, PatchError)):
        changes(Fix(patch=patch, workdir="/w"))
