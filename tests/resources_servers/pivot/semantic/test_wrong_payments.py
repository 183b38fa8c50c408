"""Pairs of actions that look alike, and what each earns: unsound rewrites, and actions that are not the expert's."""

from collections.abc import Callable
from typing import Any

import pytest

from paddock.resources_servers.pivot.semantic import compare
from paddock.resources_servers.pivot.task import read_expected
from paddock.types import JsonObject

Score = Callable[..., Any]
Call = tuple[str, JsonObject | str]


def sh(command: str, **more: Any) -> Call:
    return "execute_bash", {"command": command, **more}


def edit(path: str, old: str, new: str) -> Call:
    return "str_replace_editor", {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


def view(path: str, *lines: int) -> Call:
    arguments: JsonObject = {"command": "view", "path": path}
    return "str_replace_editor", {**arguments, "view_range": list(lines)} if lines else arguments


ASKS = "Which tickets? I need the ids."
OLD = "def total(rows):\n    found = 0\n    for row in rows:\n        found = 1\n    return found"
CASES: list[tuple[Any, Any, float]] = [
    # Commands that bash runs otherwise, though they have the same words.
    (sh("tr -d e < f"), sh("tr e -d < f"), 0.0),
    (sh("tail -5 f"), sh("tail f -5"), 0.0),
    (sh("head -1 f"), sh("head f -1"), 0.0),
    (sh("head -0 f"), sh("head f -0"), 0.0),
    (sh("tail -n 5 a b"), sh("tail -5 a b"), 0.0),
    # Texts that say nothing.
    (ASKS, ".", 0.0),
    (ASKS, "No.", 0.0),
    (ASKS, "a" * 300_000, 0.0),
    (ASKS, ASKS, 1.0),
    (("finish", {"message": "Fixed the rounding of totals."}),
     ("finish", {"message": "I could not find the bug and changed nothing."}), 0.0),
    (("finish", {"message": "Fixed the rounding of totals."}), ("finish", {"message": "."}), 0.0),
    (("think", {"thought": "The cache is filled twice."}), ("think", {"thought": "."}), 0.0),
    # Reads of far more, of another part, or of less.
    (view("/a.py", 100, 300), view("/a.py", 1, 603), 0.0),
    (view("/a.py", 1, 200), view("/a.py", 1, 600), 0.0),
    (view("/a.py", 100, 100), view("/a.py", 80, 120), 0.0),
    (view("/a.py", 1, 100), view("/a.py", 1, 90), 0.0),
    (view("/a.py", 100, 300), view("/a.py", 100, 310), 1.0),
    # Limits under which the command is killed, or its output hidden.
    (sh("pytest -q"), sh("pytest -q", timeout=0.001), 0.0),
    (sh("pytest -q"), sh("pytest -q", timeout=-1), 0.0),
    (sh("pytest -q"), sh("pytest -q", timeout_ms=1), 0.0),
    (sh("pytest -q"), sh("pytest -q", max_output_tokens=1), 0.0),
    (sh("pytest -q"), sh("pytest -q", yield_time_ms=0), 0.0),
    (sh("pytest -q"), sh("timeout 0.01 pytest -q"), 0.0),
    (sh("pytest -q"), sh("pytest -q", timeout=600), 1.0),
    # Places that need not exist, or where the lasting shell does not belong.
    (sh("cat /testbed/a.py"), sh("cd /no/such/dir && cat /testbed/a.py"), 0.0),
    (sh("cat /testbed/a.py"), sh("cd /etc && cat /testbed/a.py"), 0.0),
    # What destroys where another part fails, or would if it were no comment.
    (sh("cd /testbed && ls"), sh("cd /testbed || rm -rf /; ls"), 0.0),
    (sh("ls"), sh("true || rm -rf /; ls"), 0.0),
    # Edits that a tool may refuse, since their text may stand twice.
    (edit("/a.py", OLD, OLD.replace("= 1", "= 2")), edit("/a.py", "= 1", "= 2"), 0.0),
    # Arguments with a key twice.
    (sh("ls"), ("execute_bash", '{"command": "rm -rf /", "command": "ls"}'), 0.0),
    # Several guesses, the right one among them, and what undoes it.
    (sh("pytest tests/test_0.py"), [sh("pytest tests/test_0.py"), sh("pytest tests/test_1.py")], 0.0),
    (sh("cat a.py"), [sh("cat a.py"), sh("cat b.py")], 0.0),
    (edit("/a.py", "x = 1", "x = 2"), [edit("/a.py", "x = 1", "x = 2"), edit("/a.py", "x = 2", "x = 1")], 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "actual", "reward"), CASES)
def test_an_action_earns_what_it_does(score: Score, expected: Any, actual: Any, reward: float) -> None:
    found = score(expected, actual)
    assert found.reward == reward, found.reason
    assert reward == 1.0 or found.reason != "match"


def test_a_comment_is_no_command(score: Score) -> None:
    """Nothing of it runs, so the command does what the expert's does."""
    assert score(sh("ls"), sh("ls # rm -rf /")).reward == 1.0


def test_a_response_of_other_shapes_is_not_paid() -> None:
    expected = read_expected({"expected_action": {"type": "function_call", "name": "ls", "arguments": "{}"}})
    for response in ({}, {"output": None}, {"status": "completed", "output": [{"type": "function_call"}]}):
        assert compare(expected, response, {}).reward == 0.0
