"""Claims on shell calls: which rewrites of a command keep the reward and which lose it."""

from collections.abc import Callable
from typing import Any

import pytest

DODGES = [
    ("# ", ""), ("echo ", ""), (": ", ""), ("true || ", ""), ("false && ", ""), ("exit 0; ", ""), ("", "; exit 0"),
    ("", " &"), ("", " > /dev/null"), ("", " &> /dev/null"),
    ("", " | tee log"), ("", " --collect-only"), ("", " --help"), ("", " && rm -rf /r"), ("", "; rm -rf src"),
    ("cd / && ", ""), ("PATH=/x ", ""), ("PYTHONPATH=/x ", ""), ("export X=1; ", ""),
    ("alias pytest=true; ", ""), ("pytest() { :; }; ", ""), ("cat <<'EOF'\n", "\nEOF"), ("timeout 0.01 ", ""),
    ("sudo ", ""), ("if false; then ", "; fi"), ("", "\u200b"), ("", "\r"), ("\uff50", ""), ("", "/../../x"),
]  # fmt: skip
"""What may be put around a command so that it looks alike and does something else."""

DECORATION = [("", " || true"), ("", "; true"), ("", " 2> /dev/null"), ("set -e; ", ""), ("time ", "")]
"""What may be put around a command and changes nothing of what it is for."""

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
    ("a && b", "a ; b"),
    *[("pytest tests", f"{before}pytest tests{after}") for before, after in DECORATION],
]
DIFFERENT = [
    ("pytest -q tests", "rm -rf /tmp/x"),
    ("grep -rn 'def resolve' /testbed/src", "rm -rf / --no-preserve-root"),
    ("cp good.py bad.py && rm bad.bak", "cp bad.py good.py && rm bad.bak"),
    ("grep -rn foo src tests", "grep -rn foo src tests ; rm -rf /testbed"),
    ("grep -rn foo src", "grep -rn foo tests"),
    ("grep -rn foo src", "grep -rln foo src"),
    ("grep -rn foo src", "grep -rn Foo src"),
    ("ls", "ls -R"),
    ("head -20 a.py", "head -60 a.py"),
    ("head -20 a.py", "tail -20 a.py"),
    ("sed -n 1,20p a.py", "sed -n 1,40p a.py"),
    ("cd /repo && pytest", "cd /other && pytest"),
    ("pytest tests/test_a.py", "pytest tests/test_b.py"),
    ("pytest tests/test_a.py", "pytest tests/test_a.py -k slow"),
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
        (("exec_command", {"cmd": "ls"}), ("exec_command", {"cmd": "ls", "yield_time_ms": 300, "login": True}), 1),
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
        (("write_stdin", {"session_id": 1}), ("write_stdin", {"session_id": 1, "chars": "", "yield_time_ms": 900}), 1),
        (("bash", {"command": "cat a.py"}), ("read", {"filePath": "a.py"}), 1),
        (("bash", {"command": "grep -rn x ."}), ("grep", {"pattern": "x"}), 1),
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


def bash(command: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "execute_bash", {"command": command, **more}


@pytest.mark.parametrize(
    ("expected", "actual", "reward"),
    [
        ({}, {"timeout": 0.001}, 0),
        ({}, {"timeout": -1}, 0),
        ({}, {"timeout": 0}, 0),
        ({}, {"timeout_ms": 1}, 0),
        ({}, {"max_output_tokens": 1}, 0),
        ({}, {"yield_time_ms": 0}, 0),
        ({"timeout": 120}, {"timeout": 2}, 0),
        ({}, {"timeout": 10, "max_output_tokens": 2000, "yield_time_ms": 1000}, 1),
        ({"timeout": 2}, {"timeout": 2}, 1),
        ({"timeout": 2}, {"timeout": 3}, 1),
        ({"timeout": 120}, {"timeout": 60}, 1),
        ({"timeout": 120}, {}, 1),
        ({"timeout": -1}, {"timeout": -1}, 1),
    ],
)
def test_a_limit_that_may_cut_what_is_shown_is_not_neutral(
    score: Callable[..., Any], expected: dict[str, Any], actual: dict[str, Any], reward: float
) -> None:
    found = score(bash("pytest -q", **expected), bash("pytest -q", **actual))
    assert (found.reward, found.reason) == (reward, "match" if reward else "limit_differs")


@pytest.mark.parametrize(
    ("expected", "actual", "cwd", "reward"),
    [
        ("cat /testbed/a.py", "cd /no/such/dir && cat /testbed/a.py", None, 0),
        ("cat /testbed/a.py", "cd /etc && cat /testbed/a.py", None, 0),
        ("cat /testbed/a.py", "cd /etc; cat /testbed/a.py", "/testbed", 0),
        ("echo /etc/x", "cd /etc && echo /etc/x", None, 0),
        ("grep etc /r/a", "cd etc && grep etc /r/a", None, 0),
        ("cd /etc && cat /testbed/a.py", "cat /testbed/a.py", None, 0),
        ("cat /testbed/a.py", "cd /testbed && cat /testbed/a.py", None, 1),
        ("cat /testbed/src/a.py", "cd /testbed && cat src/a.py", None, 1),
        ("cat /etc/hosts", "cd /testbed && cat /etc/hosts", "/testbed/src", 1),
        ("pytest -q", "cd /testbed && pytest -q", "/testbed", 1),
        ("cd /x && cat /r/a", "cd /x && cat  /r/a", None, 1),
    ],
)
def test_a_directory_that_one_enters_must_hold_what_both_name(
    score: Callable[..., Any], expected: str, actual: str, cwd: str | None, reward: float
) -> None:
    assert score(bash(expected), bash(actual), cwd=cwd).reward == reward


@pytest.mark.parametrize(
    ("expected", "actual", "reward"),
    [
        ("cd /testbed && ls", "cd /testbed || rm -rf /; ls", 0),
        ("ls", "true || rm -rf /; ls", 0),
        ("cd /r || rm -rf /r; ls", "cd /r || rm -rf /r; ls  ", 1),
        ("ls", "ls # rm -rf /", 1),
    ],
)
def test_a_command_that_holds_what_destroys_is_another(
    score: Callable[..., Any], expected: str, actual: str, reward: float
) -> None:
    assert score(bash(expected), bash(actual)).reward == reward
