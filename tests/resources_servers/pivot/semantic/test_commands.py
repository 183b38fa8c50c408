"""Claims on shell calls: which rewrites of a command keep the reward and which lose it."""

from collections.abc import Callable
from typing import Any

import pytest

DODGES = [
    ("# ", ""), ("echo ", ""), (": ", ""), ("true || ", ""), ("false && ", ""), ("exit 0; ", ""), ("", "; exit 0"),
    ("", " || true"), ("", "; true"), ("", " &"), ("", " > /dev/null"), ("", " &> /dev/null"), ("", " 2> /dev/null"),
    ("", " | tee log"), ("", " --collect-only"), ("", " --help"), ("", " && rm -rf /r"), ("", "; rm -rf src"),
    ("cd / && ", ""), ("PATH=/x ", ""), ("PYTHONPATH=/x ", ""), ("export X=1; ", ""), ("set -e; ", ""),
    ("alias pytest=true; ", ""), ("pytest() { :; }; ", ""), ("cat <<'EOF'\n", "\nEOF"), ("timeout 0.01 ", ""),
    ("sudo ", ""), ("if false; then ", "; fi"), ("", "\u200b"), ("", "\r"), ("\uff50", ""), ("", "/../../x"),
]  # fmt: skip
"""What may be put around a command so that it looks alike and does something else."""

SAME = [
    ("ls -la", "ls -al"),
    ("ls -la", "ls  -l   -a"),
    ("grep -rn 'def f' src", 'grep -rn "def f" src'),
    ("grep -rn foo src", "grep -r -n foo src"),
    ("grep -rn foo src", "grep --recursive --line-number foo src"),
    ("grep -n foo a.py", "cat a.py | grep -n foo"),
    ("head -20 a.py", "head -n 20 a.py"),
    ("sed -n 1,20p a.py", "sed -n '1,20p' a.py"),
    ("cd /repo && git status", "cd /repo/ && git status"),
    ("cd /repo && pytest -q tests", "cd /repo && pytest -q tests/"),
    ("python -m pytest tests/test_a.py", "pytest tests/test_a.py"),
    ("git diff", "git diff ;"),
    ("make test", "make test # run them"),
    ("mkdir -p a b", "mkdir -p b a"),
    ("rm -rf build dist", "rm -fr dist build"),
    ("find . -name '*.py'", 'find . -name "*.py"'),
    ("echo a; echo b", "echo a\necho b"),
    ("egrep 'a|b' f", "grep -E 'a|b' f"),
    ("fgrep a.b f", "grep -F a.b f"),
    ("cat ./a.py", "cat a.py"),
    ("mytool --flag 'a b'", 'mytool --flag "a b"'),
]
DIFFERENT = [
    ("pytest -q tests", "rm -rf /tmp/x"),
    ("grep -rn 'def resolve' /testbed/src", "rm -rf / --no-preserve-root"),
    ("cp good.py bad.py && rm bad.bak", "cp bad.py good.py && rm bad.bak"),
    ("grep -rn foo src tests", "grep -rn foo src tests ; rm -rf /testbed"),
    ("grep -rn foo src", "grep -rn foo tests"),
    ("grep -rn foo src", "grep -rln foo src"),
    ("grep -rn foo src", "grep -rn Foo src"),
    ("ls", "ls -a"),
    ("head -20 a.py", "head -21 a.py"),
    ("head -20 a.py", "tail -20 a.py"),
    ("sed -n 1,20p a.py", "sed -n 2,20p a.py"),
    ("cd /repo && pytest", "cd /other && pytest"),
    ("pytest tests/test_a.py", "pytest tests/test_b.py"),
    ("pytest tests/test_a.py", "pytest tests/test_a.py -k slow"),
    ("a && b", "a ; b"),
    ("a && b", "a || b"),
    ("echo a > f", "echo a >> f"),
    ("echo a > f", "echo a > g"),
    ("mv a b", "mv b a"),
    ("git checkout main", "git checkout dev"),
    ("mytool --flag x", "mytool --flag y"),
    ("echo 'a  b'", "echo 'a b'"),
    ("cat a.py", "cat /a.py"),
    *[("pytest tests", f"{before}pytest tests{after}") for before, after in DODGES],
]


@pytest.mark.parametrize(("expected", "actual"), SAME)
def test_a_command_that_does_the_same_scores_1(score: Callable[..., Any], expected: str, actual: str) -> None:
    found = score(("execute_bash", {"command": expected}), ("execute_bash", {"command": actual}))
    assert (found.reward, found.reason) == (1.0, "match"), found.detail


@pytest.mark.parametrize(("expected", "actual"), DIFFERENT)
def test_a_command_that_does_another_thing_scores_0(score: Callable[..., Any], expected: str, actual: str) -> None:
    found = score(("execute_bash", {"command": expected}), ("execute_bash", {"command": actual}))
    assert (found.reward, found.reason) == (0.0, "command_differs")
    assert found.detail


@pytest.mark.parametrize(("expected", "actual"), SAME + DIFFERENT)
def test_the_order_of_the_two_sides_does_not_matter(score: Callable[..., Any], expected: str, actual: str) -> None:
    one = score(("bash", {"command": expected}), ("bash", {"command": actual}))
    other = score(("bash", {"command": actual}), ("bash", {"command": expected}))
    assert one.reward == other.reward


@pytest.mark.parametrize(
    ("expected", "actual", "reward"),
    [
        (("execute_bash", {"command": "ls -la"}), ("exec_command", {"cmd": "ls -al"}), 1),
        (("shell", {"command": ["bash", "-lc", "ls -la"]}), ("bash", {"command": "ls -al"}), 1),
        (("shell", {"command": ["ls", "-l", "-a"]}), ("shell", {"command": ["ls", "-la"]}), 1),
        (("bash", {"command": "ls", "workdir": "/w"}), ("bash", {"command": "cd /w && ls"}), 1),
        (("bash", {"command": "ls", "workdir": "/w"}), ("bash", {"command": "ls", "workdir": "/w/./"}), 1),
        (("bash", {"command": "ls", "workdir": "/w"}), ("bash", {"command": "ls", "workdir": "/v"}), 0),
        (("bash", {"command": "ls", "workdir": "/w"}), ("bash", {"command": "ls"}), 0),
        (("bash", {"command": "ls"}), ("bash", {"command": "ls", "timeout": 30, "description": "Lists"}), 1),
        (("execute_bash", {"command": "ls"}), ("execute_bash", {"command": "ls", "security_risk": "LOW"}), 1),
        (("exec_command", {"cmd": "ls"}), ("exec_command", {"cmd": "ls", "yield_time_ms": 1, "login": True}), 1),
        (("exec_command", {"cmd": "ls"}), ("exec_command", {"cmd": "ls", "tty": True}), 0),
        (("Bash", {"command": "make"}), ("Bash", {"command": "make", "run_in_background": True}), 0),
        (("terminal", {"command": "y", "is_input": True}), ("terminal", {"command": "y", "is_input": True}), 1),
        (("terminal", {"command": "y", "is_input": True}), ("terminal", {"command": "y"}), 0),
        (("terminal", {"command": "y", "is_input": True}), ("terminal", {"command": "n", "is_input": True}), 0),
        (("terminal", {"command": "ls"}), ("terminal", {"command": "ls", "is_input": True}), 0),
        (("terminal", {"command": "ls"}), ("terminal", {"command": "ls", "reset": True}), 0),
        (("execute_bash", {"command": ""}), ("execute_bash", {"command": "", "timeout": 120}), 1),
        (("execute_bash", {"command": ""}), ("execute_bash", {"command": "ls"}), 0),
        (("write_stdin", {"session_id": 1, "chars": "q"}), ("write_stdin", {"session_id": 1.0, "chars": "q"}), 1),
        (("write_stdin", {"session_id": 1, "chars": "q"}), ("write_stdin", {"session_id": 2, "chars": "q"}), 0),
        (("write_stdin", {"session_id": 1}), ("write_stdin", {"session_id": 1, "chars": "", "yield_time_ms": 9}), 1),
        (("bash", {"command": "cat a.py"}), ("read", {"filePath": "a.py"}), 0),
        (("bash", {"command": "grep -rn x ."}), ("grep", {"pattern": "x"}), 0),
    ],
)
def test_arguments_of_a_shell_tool_count_where_they_change_what_is_done(
    score: Callable[..., Any], expected: Any, actual: Any, reward: float
) -> None:
    assert score(expected, actual).reward == reward


@pytest.mark.parametrize(
    ("cwd", "expected", "actual", "reward"),
    [
        ("/repo", "pytest tests", "cd /repo && pytest tests", 1),
        (None, "pytest tests", "cd /repo && pytest tests", 0),
        ("/repo", "cat a.py", "cat /repo/a.py", 1),
        ("/other", "cat a.py", "cat /repo/a.py", 0),
    ],
)
def test_a_working_directory_that_is_known_resolves_paths(
    score: Callable[..., Any], cwd: str | None, expected: str, actual: str, reward: float
) -> None:
    assert score(("bash", {"command": expected}), ("bash", {"command": actual}), cwd=cwd).reward == reward
