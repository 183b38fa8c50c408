"""Claims about runs of tests and of other programs: what changes only the report does not count, what runs does."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.resources_servers.pivot.semantic.intents import Intent, intents_of, test_runs
from paddock.shell.program_options import options_of
from paddock.tools import ShellCommand

Score = Callable[..., Any]
LOOKS = [
    "-q",
    "-v",
    "-rA",
    "--tb=short",
    "--tb short",
    "--no-header",
    "--color=no",
    "-p no:cacheprovider",
    "-n 4",
    "-s",
]
SAME = [
    ("pytest tests/a.py", "python3 -m pytest -v ./tests/a.py"),
    ("pytest tests/a.py tests/b.py", "pytest tests/b.py tests/a.py --tb=line 2>&1 | tail -20"),
    ("pytest tests/a.py::T::m", "cd tests && pytest a.py::T::m"),
    ("pytest -k 'x and y' tests", "pytest tests -k 'x and y' -q"),
    ("pytest -xvs tests/a.py", "pytest --exitfirst tests/a.py"),
    ("pytest --last-failed -k=x", "pytest -vv --lf -k x"),
    ("cargo test --lib x", "cargo test --lib x -- --nocapture"),
    ("go test -run TestX ./...", "go test -run=TestX -count=1 ./..."),
    ("python -m unittest a.b.C -v", "python3 -m unittest a.b.C"),
    ("python tests/runtests.py forms --parallel 1", "./tests/runtests.py forms -v 2"),
    ("./tests/runtests.py forms", "cd tests && ./runtests.py forms"),
    ("python manage.py test app --noinput", "python3 ./manage.py test app"),
    ("bin/test sympy/core", "./bin/test sympy/core -v"),
    ("go test ./...", "go test -v ./..."),
    ("npm test", "npm run test --silent"),
    ("git status", "git status -s"),
    ("git log --oneline -5", "git log -5 --no-color"),
    ("git diff", "git --no-pager diff | cat"),
    ("pip install -e .", "python -m pip install -q -e ."),
    ("python -c 'print(1)'", 'python3 -c "print( 1 )  # one"'),
    ("python - <<'E'\nx = 'a'\nE", 'python3 <<"E"\nx = "a"  # text\nE'),
    ("mkdir -p /r/x && chmod 755 /r/x", "install -d -m 755 /r/x"),
    ("mkdir -p /r/x && chmod 755 /r/x", "mkdir -p -m 0755 /r/x"),
    ("chmod u=rwx,go=rx f", "chmod 755 f"),
    ("echo DONE_AND_SUBMIT && cat p.txt", "printf 'DONE_AND_SUBMIT\\n'; cat p.txt"),
    ("python3 run.py", "timeout 100 python3 -u ./run.py 2>&1 || true"),
    ("python run.py a", "cd /repo && python run.py a 2>&1 | tail -n 100"),
    (
        "cat > run.py <<'E'\nprint(1)\nE\npython3 run.py",
        "cat <<'E' > run.py\nprint(1)\nE\ntimeout 60 python3 run.py 2>&1 | tail -n 50",
    ),
    ("python3 run.py && ls", "python3 run.py | cat; ls"),
    ("python3 run.py", "python3 /repo/run.py"),
    ("cd tests && python run.py a", "cd /repo/tests && python -u /repo/tests/run.py a"),
    ("python3 run.py", "PYTHONPATH=. python3 run.py"),
    ("python3 run.py", "export PYTHONPATH=/repo && python3 ./run.py"),
    ("python3 -c 'import a'", "PYTHONPATH=. python3 -c 'import a'"),
    ("make build", "timeout 600 make build 2>&1 | tail -n 30"),
    ("rm -rf build/ dist *.egg-info", "rm -fr ./*.egg-info dist ./build"),
    ("node -e \"f('a')\"", "node --eval='f(\"a\")'"),
]
DIFFERENT = [
    ("python3 run.py", "python3 /other/run.py"),
    ("rm -rf build dist", "rm -rf build dist src"),
    ("rm -rf build", "rm -rf build/*"),
    ("rm -rf build", "rm -r -- build"),
    ("rm -f build/", "rm -f build"),
    ("rm -rf *.x", "rm -rf '*.x'"),
    ("rm -rf *", "rm -rf */"),
    ("rm -rf ./-x", "rm -rf -x"),
    ("rm -rf /", "rm -rf ."),
    ("node -e \"f('a')\"", "node -e \"f('b')\""),
    ("node -e \"f(/'/, 'a')\"", 'node -e \'f(/"/, "a")\''),
    ("python3 run.py", "cd / && python3 repo/run.py"),
    ("python3 run.py", "python3 run.py /repo/run.py"),
    ("python3 run.py", "python3 /repo/run.py/"),
    ("pytest tests/a.py", "pytest tests/b.py"),
    ("pytest tests/a.py", "pytest tests/a.py tests/b.py"),
    ("pytest tests/a.py", "pytest"),
    ("pytest tests/a.py", "pytest tests/a.py -k x"),
    ("pytest tests/a.py::m", "pytest tests/a.py -k m"),
    ("pytest tests/a.py", "pytest tests/a.py -x"),
    ("pytest tests/a.py", "pytest -vx tests/a.py"),
    ("pytest tests/a.py", "pytest -vj tests/a.py"),
    ("cargo test x", "cargo test x -- --ignored"),
    ("pytest tests/a.py", "pytest tests/a.py --collect-only"),
    ("pytest tests/a.py", "pytest tests/a.py -p evil"),
    ("pytest tests/a.py", "pytest --version"),
    ("pytest tests/a.py", "pytest tests/a.py | tail -1"),
    ("pytest tests/a.py", "pytest tests/a.py | head -3"),
    ("pytest tests/a.py", "pytest tests/a.py > out.txt"),
    ("pytest tests/a.py", "pytest tests/a.py; rm -rf tests"),
    ("pytest tests/a.py", "echo pytest tests/a.py"),
    ("pytest tests/a.py", "# pytest tests/a.py"),
    ("pytest tests/a.py", "true || pytest tests/a.py"),
    ("pytest tests/a.py", "pytest tests/a.py &"),
    ("pytest tests/a.py", "FLAG=1 pytest tests/a.py"),
    ("pytest tests/a.py", "cd tests && pytest tests/a.py"),
    ("pytest tests/a.py", "python -m unittest tests.a"),
    ("pytest -W error", "pytest -W ignore"),
    ("./tests/runtests.py forms", "cd tests && ./tests/runtests.py forms"),
    ("./tests/runtests.py forms", "cd tests && PYTHONPATH=. ./runtests.py forms"),
    ("./tests/runtests.py ./forms", "cd tests && ./runtests.py ./forms"),
    ("./runtests.py forms", "cd src && ../runtests.py forms"),
    ("go test ./...", "go test ./pkg"),
    ("git diff", "git diff --stat"),
    ("git diff", "git diff HEAD~1"),
    ("git status", "git stash"),
    ("git log -5", "git log -50"),
    ("pip install -e .", "pip install ."),
    ("python -c 'print(1)'", "python -c 'print(2)'"),
    ("mkdir -p /r/x && chmod 755 /r/x", "mkdir -p -m 700 /r/x"),
    ("mkdir -p /r/x && chmod 755 /r/x", "mkdir -p /r/x"),
    ("chmod 755 f", "chmod u=rwx f"),
    ("chmod 755 f", "chmod +x f"),
    ("chmod 1755 f", "chmod 755 f"),
    ("echo DONE_AND_SUBMIT && cat p.txt", "cat p.txt"),
    ("cat p.txt", "echo DONE_AND_SUBMIT && cat p.txt"),
    ("make build", "make build | head -5"),
    ("python3 run.py", "python3 run.py | head -1"),
    ("python3 run.py", "python3 other.py"),
    ("echo 'print(1)' > run.py; python3 run.py", "echo 'print(2)' > run.py; python3 run.py"),
    ("echo 'print(1)' > run.py; python3 run.py", "python3 run.py; echo 'print(1)' > run.py"),
    ("echo 'print(1)' > run.py; python3 run.py", "echo 'print(1)' > run.py"),
    ("python3 run.py", "python3 run.py > out.txt"),
    ("python3 run.py", "PYTHONPATH=src python3 run.py"),
    ("python3 run.py", "PYTHONPATH=.:src python3 run.py"),
    ("python3 run.py", "PYTHONPATH=/other python3 run.py"),
    ("python3 src/run.py", "PYTHONPATH=. python3 src/run.py"),
    ("python3 -I run.py", "PYTHONPATH=. python3 -I run.py"),
    ("pytest tests/a.py", "PYTHONPATH=. pytest tests/a.py"),
    ("python3 run.py", "cd src && python3 run.py"),
    ("python3 run.py", "echo 'print(1)' > run.py; python3 run.py"),
    ("make build", "make build install"),
    ("mytool < a.txt", "mytool < b.txt"),
    ("mytool > a.txt", "mytool > b.txt"),
    ("mytool > a.txt", "mytool >> a.txt"),
    ("mytool *.py", "mytool '*.py'"),
]


def bash(command: str) -> tuple[str, dict[str, str]]:
    return "bash", {"command": command}


@pytest.mark.parametrize(("expected", "actual"), SAME)
def test_what_runs_the_same_scores_1_either_way_round(score: Score, expected: str, actual: str) -> None:
    assert score(bash(expected), bash(actual), cwd="/repo").reward == 1.0
    assert score(bash(actual), bash(expected), cwd="/repo").reward == 1.0


@pytest.mark.parametrize(("expected", "actual"), DIFFERENT)
def test_what_runs_something_else_scores_0(score: Score, expected: str, actual: str) -> None:
    found = score(bash(expected), bash(actual), cwd="/repo")
    assert found.reward == 0.0
    assert found.detail


def of(command: str) -> tuple[Intent, ...]:
    return intents_of(ShellCommand(command), "/repo")


@given(st.permutations(LOOKS), st.integers(0, len(LOOKS)), st.sampled_from(["", "-k x", "-x", "-m slow"]))
def test_any_looks_in_any_order_change_nothing(looks: list[str], count: int, setting: str) -> None:
    assert of(f"pytest {' '.join(looks[:count])} t.py {setting}") == of(f"pytest {setting} t.py") != ()


@given(st.text(alphabet="abk-=x: ./'", max_size=30))
def test_no_text_behind_a_runner_raises_and_what_is_unknown_is_no_run_of_tests(text: str) -> None:
    for intent in of(f"pytest {text}"):
        assert intent.record is not None


RUNNERS_OWN = {
    "go": {"-skip"},
    "cargo": {"--nocapture", "--test-threads", "--ignored"},  # Of the program of the tests itself.
    "jest": {"--no-color"},
}


@pytest.mark.parametrize("runner", test_runs.RUNNERS)
def test_a_runner_has_the_options_that_its_help_names(runner: str) -> None:
    helps = {name for command in test_runs.RUNNERS[runner].help for name in options_of(command)}
    if helps:
        assert set(test_runs.runner_options(runner)[0]) - helps == RUNNERS_OWN.get(runner, set())
