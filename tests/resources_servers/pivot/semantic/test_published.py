"""Calls that published comparators rewarded wrongly score 0, and those they refused wrongly score 1."""

from collections.abc import Callable
from typing import Any

import pytest

PYTEST = ("bash", {"command": "pytest -q tests"})
FINISH = ("finish", {"message": "done"})

REWARDED_WRONGLY = [
    (PYTEST, ("bash", {"command": "rm -rf /tmp/x"})),
    (PYTEST, ("bash", "{command: pytest}")),
    (PYTEST, ("bash", "{}")),
    (PYTEST, ("bash", "[1]")),
    (("str_replace_editor", {"command": "view", "path": "/a/b.py"}), ("edit", '{"filePath": ')),
    (("grep", {"pattern": "def foo", "path": "/a/b"}), ("grep", {"pattern": "zzz"})),
    (("read", {"filePath": "/a/b.py"}), ("read", {"filePath": "/etc/passwd"})),
    (FINISH, ("submit", {})),
    (FINISH, ("finish", "not json")),
    (("think", {"thought": "a"}), ("think", {"anything": 1})),
    (("update_plan", {"plan": [{"step": "a", "status": "pending"}]}), ("update_plan", {"x": 1})),
    (("update_plan", {"plan": [{"step": "a", "status": "pending"}]}), ("task_tracker", {"command": "view"})),
    (
        ("bash", {"command": 'grep -rn "def resolve" /testbed/src'}),
        ("bash", {"command": "rm -rf / --no-preserve-root"}),
    ),
    (
        ("edit", {"filePath": "a.py", "oldString": "return x + 1", "newString": "return x - 1"}),
        ("edit", {"filePath": "a.py", "oldString": "lorem ipsum dolor", "newString": "foo bar baz"}),
    ),
    (
        ("bash", {"command": "cp good.py bad.py && rm bad.bak"}),
        ("bash", {"command": "cp bad.py good.py && rm bad.bak"}),
    ),
    (
        ("bash", {"command": "grep -rn foo src tests"}),
        ("bash", {"command": "grep -rn foo src tests ; rm -rf /testbed"}),
    ),
    (
        ("edit", {"filePath": "a.py", "oldString": "    return x", "newString": "    return x + 1"}),
        ("edit", {"filePath": "a.py", "oldString": "    return x", "newString": "        return x + 1"}),
    ),
    (
        ("edit", {"filePath": "a.py", "oldString": "if a:", "newString": "if not a:"}),
        ("edit", {"filePath": "a.py", "oldString": "if a:", "newString": "if a :"}),
    ),
    (("set_count", {"n": 1}), ("set_count", {"n": True})),
    ("Hello.", ""),
]
REFUSED_WRONGLY = [
    (("bash", {"command": "ls -la"}), ("bash", {"command": "ls -la", "timeout": 30})),
    (("bash", {"command": "ls"}), ("bash", {"command": "ls "})),
    (("set_ratio", {"x": 1.0}), ("set_ratio", {"x": 1})),
    (("set_ratio", {"x": 1}), ("set_ratio", {"x": 1.0})),
    (("execute_bash", {"command": "ls"}), ("ExecuteBash", {"command": "ls"})),
    (("read", {"filePath": "/a/b.py"}), ("view_file", {"path": "/a/b.py"})),
]


@pytest.mark.parametrize(("expected", "actual"), REWARDED_WRONGLY)
def test_what_was_rewarded_wrongly_scores_0(score: Callable[..., Any], expected: Any, actual: Any) -> None:
    assert score(expected, actual).reward == 0.0


@pytest.mark.parametrize(("expected", "actual"), REFUSED_WRONGLY)
def test_what_was_refused_wrongly_scores_1(score: Callable[..., Any], expected: Any, actual: Any) -> None:
    assert score(expected, actual).reward == 1.0
