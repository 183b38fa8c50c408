"""Claims on reads, searches and listings."""

from collections.abc import Callable
from typing import Any

import pytest

VIEW = {"command": "view", "path": "/r/a.py"}


def view(first: int, last: int) -> tuple[str, dict[str, Any]]:
    return "str_replace_editor", {**VIEW, "view_range": [first, last]}


READS_SAME = [
    (("str_replace_editor", VIEW), ("str_replace_editor", {**VIEW, "path": "/r/./a.py"})),
    (("str_replace_editor", VIEW), ("str_replace_editor", {**VIEW, "path": "/r/b/../a.py"})),
    (("str_replace_editor", VIEW), ("str_replace_editor", {**VIEW, "path": "//r/a.py"})),
    (("str_replace_editor", VIEW), ("file_editor", {**VIEW, "view_range": [1, -1], "summary": "look"})),
    (("str_replace_editor", VIEW), ("str_replace_editor", {**VIEW, "view_range": None, "security_risk": "LOW"})),
    (("str_replace_editor", VIEW), ("read", {"filePath": "/r/a.py"})),
    (("read", {"filePath": "/r/a.py"}), ("read", {"filePath": "/r/a.py", "offset": 1, "limit": 2000})),
    (("read", {"filePath": "/r/a.py", "offset": 40, "limit": 41}), view(40, 80)),
    (view(40, 80), view(38, 85)),
    (view(40, 80), view(30, 90)),
    (view(40, 40), view(35, 45)),
    (view(100, 300), view(50, 350)),
    (view(40, -1), view(30, -1)),
    (view(5, -1), ("str_replace_editor", VIEW)),
    (("read_file", {"file_path": "/r/a.py", "offset": 5}), ("Read", {"file_path": "/r/a.py", "offset": 5})),
]
READS_DIFFERENT = [
    (("str_replace_editor", VIEW), ("str_replace_editor", {**VIEW, "path": "/r/b.py"})),
    (("str_replace_editor", VIEW), ("str_replace_editor", {**VIEW, "path": "/q/a.py"})),
    (("str_replace_editor", VIEW), ("str_replace_editor", {**VIEW, "path": "r/a.py"})),
    (("str_replace_editor", VIEW), ("str_replace_editor", {**VIEW, "path": "/etc/passwd"})),
    (("str_replace_editor", VIEW), view(1, 50)),
    (view(40, 80), view(60, 100)),
    (view(40, 80), view(42, 80)),
    (view(40, 80), view(10, 100)),
    (view(40, 42), view(30, 60)),
    (view(100, 300), view(1, 603)),
    (view(1, 200), view(1, 600)),
    (view(100, 100), view(80, 120)),
    (view(1, 100), view(1, 90)),
    (view(40, -1), view(29, -1)),
    (view(40, 80), view(81, 120)),
    (view(40, 80), view(1, 400)),
    (view(40, 80), ("str_replace_editor", VIEW)),
    (view(40, 80), view(40, -1)),
    (view(40, -1), view(45, -1)),
    (view(1900, -1), ("str_replace_editor", VIEW)),
    (("str_replace_editor", VIEW), ("str_replace_editor", {"command": "undo_edit", "path": "/r/a.py"})),
    (("read", {"filePath": "/r/a.py"}), ("list", {"path": "/r/a.py"})),
]
GREP = {"pattern": "def f\\(", "path": "/r/src", "include": "*.py"}
SEARCHES_SAME = [
    (("grep", GREP), ("grep", {**GREP, "path": "/r/src/"})),
    (("grep", GREP), ("grep_files", {**GREP, "limit": 100})),
    (("grep", GREP), ("SearchText", GREP)),
    (("grep", GREP), ("grep", {**GREP, "path": "/r"})),
    (("grep", {"pattern": "x"}), ("grep", {"pattern": "x", "path": "."})),
    (("grep", {"pattern": "x"}), ("grep", {"pattern": "x", "path": None, "include": ""})),
    (("grep", {"pattern": 'a = "b"'}), ("grep", {"pattern": 'a = \\"b\\"'})),
    (("grep", {"pattern": "a.b(", "literal": True}), ("grep", {"pattern": "a\\.b\\("})),
    (("grep", {"pattern": "x", "path": "src"}), ("grep", {"pattern": "x", "path": "./src"})),
    (("glob", {"pattern": "**/*.py", "path": "/r"}), ("glob", {"pattern": "**/*.py", "path": "/r/."})),
    (("glob", {"pattern": "src/**/*.py"}), ("glob", {"pattern": "**/*.py", "path": "src"})),
    (("glob", {"pattern": "a/*.py"}), ("find_files", {"pattern": "a/*.py", "path": "./"})),
    (("glob", {"pattern": "a/b/**/*.py", "path": "/r"}), ("glob", {"pattern": "b/**/*.py", "path": "/r/a"})),
]
SEARCHES_DIFFERENT = [
    (("grep", GREP), ("grep", {"pattern": "zzz"})),
    (("grep", GREP), ("grep", {**GREP, "pattern": "def g\\("})),
    (("grep", GREP), ("grep", {**GREP, "pattern": "def f("})),
    (("grep", GREP), ("grep", {**GREP, "path": "/r/tests"})),
    (("grep", GREP), ("grep", {**GREP, "path": "/r/src/deep"})),
    (("grep", GREP), ("grep", {**GREP, "path": "/"})),
    (("glob", {"pattern": "**/*.py", "path": "/r"}), ("glob", {"pattern": "**/*.py", "path": "/"})),
    (("grep", GREP), ("grep", {**GREP, "include": "*.js"})),
    (("grep", {**GREP, "pattern": "f\\("}), ("grep", {"pattern": "f\\(", "path": "/r/src"})),
    (("grep", {"pattern": "x"}), ("grep", {"pattern": "x", "-i": True})),
    (("grep", {"pattern": "a.b"}), ("grep", {"pattern": "a\\.b"})),
    (("grep", {"pattern": "\\<a"}), ("grep", {"pattern": "<a"})),
    (("grep", {"pattern": "*.py"}), ("glob", {"pattern": "*.py"})),
    (("glob", {"pattern": "*.py"}), ("glob", {"pattern": "**/*.py"})),
    (("glob", {"pattern": "./a/*.py"}), ("glob", {"pattern": "a/*.py"})),
    (("glob", {"pattern": "a/**/*.py"}), ("glob", {"pattern": "**/*.py", "path": "b"})),
    (("glob", {"pattern": "src/*.py"}), ("glob", {"pattern": "*.py", "path": "src"})),
]
LISTS_SAME = [
    (("list", {"path": "/r"}), ("read", {"filePath": "/r"})),
    (("list", {"path": "/r"}), ("bash", {"command": "ls /r"})),
    (("list_dir", {"dir_path": "/r"}), ("list_dir", {"dir_path": "/r/"})),
    (("list_dir", {"dir_path": "/r"}), ("list_dir", {"dir_path": "/r", "depth": 2})),
    (("list_dir", {"dir_path": "/r"}), ("list_dir", {"dir_path": "/r", "offset": 1, "limit": 25})),
    (("list_dir", {"dir_path": "/r"}), ("list", {"path": "/r"})),
    (("list_dir", {"dir_path": "/r"}), ("ls", {"path": "/r/src/.."})),
    (("list_dir", {"dir_path": "/r"}), ("ShowDir", {"path": "/r"})),
    (("list", {}), ("list", {"path": "."})),
    (("list", {}), ("list", {"path": None})),
    (("list_directory", {"dir_path": "r"}), ("list_directory", {"dir_path": "./r", "recursive": False})),
    (("list_dir", {"dir_path": "/r", "depth": 3}), ("list_dir", {"dir_path": "/r", "depth": 3.0})),
]
LISTS_DIFFERENT = [
    (("list_dir", {"dir_path": "/r"}), ("list_dir", {"dir_path": "/q"})),
    (("list_dir", {"dir_path": "/r"}), ("list_dir", {"dir_path": "/"})),
    (("list_dir", {"dir_path": "/r"}), ("list_dir", {"dir_path": "/r/src"})),
    (("list_dir", {"dir_path": "/r"}), ("list_dir", {"dir_path": "r"})),
    (("list_dir", {"dir_path": "/r"}), ("list_dir", {})),
    (("list_dir", {"dir_path": "/r"}), ("list_dir", {"dir_path": "/r", "depth": 3})),
    (("list_dir", {"dir_path": "/r"}), ("list_dir", {"dir_path": "/r", "offset": 26})),
    (("list_directory", {"dir_path": "/r"}), ("list_directory", {"dir_path": "/r", "recursive": True})),
    (("list", {"path": "/r"}), ("list", {"path": "/r", "ignore": ["src"]})),
]


@pytest.mark.parametrize(("expected", "actual"), READS_SAME + SEARCHES_SAME + LISTS_SAME)
def test_a_look_that_shows_the_same_scores_1(score: Callable[..., Any], expected: Any, actual: Any) -> None:
    found = score(expected, actual)
    assert (found.reward, found.reason) == (1.0, "match"), found.detail


@pytest.mark.parametrize(("expected", "actual"), READS_DIFFERENT + SEARCHES_DIFFERENT + LISTS_DIFFERENT)
def test_a_look_at_something_else_scores_0(score: Callable[..., Any], expected: Any, actual: Any) -> None:
    assert score(expected, actual).reward == 0.0


@pytest.mark.parametrize(
    ("expected", "actual", "reason"),
    [
        (("read", {"filePath": "/a"}), ("read", {"filePath": "/b"}), "path_differs"),
        (view(40, 80), view(90, 99), "lines_differ"),
        (("grep", {"pattern": "a"}), ("grep", {"pattern": "b"}), "pattern_differs"),
        (("grep", {"pattern": "a"}), ("grep", {"pattern": "a", "path": "x"}), "scope_differs"),
        (("grep", {"pattern": "a"}), ("grep", {"pattern": "a", "include": "x"}), "scope_differs"),
        (("grep", {"pattern": "a"}), ("grep", {"pattern": "a", "-A": 3}), "arguments_differ"),
        (("read", {"filePath": "/a"}), ("glob", {"pattern": "/a"}), "kind_differs"),
        (("read", {"filePath": "/a"}), ("read", {}), "missing_argument"),
    ],
)
def test_the_reason_says_what_differs(score: Callable[..., Any], expected: Any, actual: Any, reason: str) -> None:
    found = score(expected, actual)
    assert (found.reward, found.reason) == (0.0, reason)
    assert found.detail


@pytest.mark.parametrize(
    ("options", "expected", "actual", "reward"),
    [
        ({"read_whole_file_ok": True}, view(40, 80), ("str_replace_editor", VIEW), 1),
        ({"read_min_coverage": 0.9}, view(40, 80), view(42, 80), 1),
        ({"read_max_ratio": 20.0}, view(40, 80), view(1, 400), 1),
        ({"read_max_ratio": 1.0, "read_extra_lines": 0}, view(40, 80), view(39, 80), 0),
        ({"search_wider_levels": 0}, ("grep", GREP), ("grep", {**GREP, "path": "/r"}), 0),
        ({"search_wider_levels": 1}, ("grep", {**GREP, "path": "/r/a/b"}), ("grep", {**GREP, "path": "/r"}), 0),
        ({"search_wider_levels": 2}, ("grep", {**GREP, "path": "/r/a/b"}), ("grep", {**GREP, "path": "/r"}), 1),
        ({"search_wider_levels": 9}, ("grep", GREP), ("grep", {**GREP, "path": "/"}), 0),
        ({"cwd": "/r"}, ("read", {"filePath": "/r/a.py"}), ("read", {"filePath": "a.py"}), 1),
        ({"cwd": "/q"}, ("read", {"filePath": "/r/a.py"}), ("read", {"filePath": "a.py"}), 0),
        ({"cwd": "/r"}, ("grep", {"pattern": "x", "path": "/r"}), ("grep", {"pattern": "x"}), 1),
    ],
)
def test_the_options_say_how_much_a_look_may_differ(
    score: Callable[..., Any], options: dict[str, Any], expected: Any, actual: Any, reward: float
) -> None:
    assert score(expected, actual, **options).reward == reward


def shown_whole(lines: int) -> list[dict[str, Any]]:
    """A history in which the file was read whole."""
    call = {"type": "function_call", "call_id": "c", "name": "read", "arguments": '{"filePath": "/r/a.py"}'}
    text = "\n".join(f"{number:6d}\tline {number}" for number in range(1, lines + 1))
    return [call, {"type": "function_call_output", "call_id": "c", "output": text}]


@pytest.mark.parametrize(
    ("lines", "expected", "actual", "reward"),
    [
        (60, view(10, 60), ("read", {"filePath": "/r/a.py"}), 1),
        (60, view(10, -1), view(10, 60), 1),
        (60, view(10, -1), view(10, 400), 1),
        (60, ("read", {"filePath": "/r/a.py"}), view(1, 60), 1),
        (60, view(40, 50), ("read", {"filePath": "/r/a.py"}), 0),
        (600, view(100, 300), ("read", {"filePath": "/r/a.py"}), 0),
        (60, ("read", {"filePath": "/r/a.py"}), view(1, 40), 0),
    ],
)
def test_a_read_of_a_file_that_the_history_shows_ends_where_it_ends(
    score: Callable[..., Any], lines: int, expected: Any, actual: Any, reward: float
) -> None:
    assert score(expected, actual, history=shown_whole(lines)).reward == reward
