"""Claims about what calls ask to change: edits as diffs, commands named as such, files and the turns that edit them."""

import json
from typing import Any

import pytest

from paddock.viewer.changes import MAX_ARGUMENTS, CallChange, call_change, changed_files

CODEX_PATCH = "*** Begin Patch\n*** Update File: a.py\n@@ def f\n-x\n+y\n*** Delete File: b.py\n*** End Patch"


@pytest.mark.parametrize(
    ("name", "arguments", "diff"),
    [
        (
            "str_replace_editor",
            {"command": "str_replace", "path": "/a.py", "old_str": "one\ntwo\n", "new_str": "one\n2\n"},
            "--- /a.py\n+++ /a.py\n@@\n one\n-two\n+2",
        ),
        (
            "str_replace_editor",
            {"command": "create", "path": "/a.py", "file_text": "one\n\ntwo"},
            "--- /dev/null\n+++ /a.py\n+one\n+\n+two",
        ),
        (
            "str_replace_editor",
            {"command": "insert", "path": "/a.py", "insert_line": 3, "new_str": "one\n"},
            "--- /a.py\n+++ /a.py\n@@ after line 3 @@\n+one",
        ),
        (
            "str_replace_editor",
            {"command": "undo_edit", "path": "/a.py"},
            "--- /a.py\n+++ /a.py\n@@ its last edit is taken back @@",
        ),
        (
            "edit",
            {"filePath": "a.py", "oldString": "x", "newString": "y", "replaceAll": True},
            "--- a.py\n+++ a.py\n@@ wherever it stands @@\n-x\n+y",
        ),
        ("write", {"filePath": "a.py", "content": "x"}, "--- a.py\n+++ a.py\n@@ the whole file @@\n+x"),
        (
            "shell",
            {"command": ["bash", "-lc", f"cd src && apply_patch <<'EOF'\n{CODEX_PATCH}\nEOF"]},
            "--- src/a.py\n+++ src/a.py\n@@ def f\n-x\n+y\n--- src/b.py\n+++ /dev/null",
        ),
    ],
)
def test_an_edit_is_a_diff(name: str, arguments: dict[str, Any], diff: str) -> None:
    assert call_change(name, json.dumps(arguments)).diff == diff


def test_a_raw_patch_is_a_diff() -> None:
    assert call_change("apply_patch", CODEX_PATCH).paths == {"a.py", "b.py"}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("str_replace_editor", '{"command": "view", "path": "/a.py"}'),
        ("edit", '{"filePath": "a.py", "oldString": "x", "newString": "x"}'),
        ("edit", "no JSON"),
        ("apply_patch", "*** Begin Patch\nnonsense"),
        ("mystery", '{"path": "a.py"}'),
        ("write", json.dumps({"filePath": "a.py", "content": "x" * MAX_ARGUMENTS})),
    ],
)
def test_what_edits_nothing_has_no_diff(name: str, arguments: str) -> None:
    assert call_change(name, arguments) == CallChange("", frozenset())


def test_a_command_is_known_as_one() -> None:
    assert call_change("bash", '{"command": "sed -i s/a/b/ a.py"}') == CallChange("", frozenset(), is_command=True)


def test_files_have_the_turns_that_edit_them_and_those_that_only_the_patch_has_come_last() -> None:
    patch = "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x\n+y\n"
    patch += "diff --git a/made.py b/made.py\nnew file mode 100644\n--- /dev/null\n+++ b/made.py\n@@ -0,0 +1 @@\n+x\n"
    first, second = CallChange("", frozenset({"/testbed/src/a.py"})), CallChange("", frozenset({"/tmp/try.py"}))
    found = changed_files([[first], [], [second, first]], patch)
    assert [(file.path, file.turns, file.in_patch) for file in found] == [
        ("/testbed/src/a.py", [1, 3], True),
        ("/tmp/try.py", [3], False),
        ("made.py", [], True),
    ]
