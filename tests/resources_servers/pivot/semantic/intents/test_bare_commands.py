"""Claims about bare commands: what decorates a command goes, what decides what it does is never overlooked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.resources_servers.pivot.semantic.intents.bare_commands import BareCommand, bare_commands


def only(script: str, directory: str | None = "/repo") -> BareCommand:
    commands = bare_commands(script, directory)
    assert commands is not None
    (command,) = commands
    return command


@pytest.mark.parametrize(
    "script",
    [
        "pytest t.py 2>&1",
        "pytest t.py 2>/dev/null || true",
        "set -e; pytest t.py",
        "timeout 60 pytest t.py; echo done",
        "time pytest t.py",
        "echo --- && pytest t.py | cat",
        "bash -lc 'pytest t.py'",
        "(pytest t.py)",
        "cd /repo && pytest t.py",
        "cd /tmp; cd ../repo; pytest t.py",
        "pwd; pytest t.py; echo $?",
        'pytest t.py; echo "exit code: ${PIPESTATUS[0]}"',
        "pytest t.py && echo ok || echo failed >&2",
        "set -euo pipefail\n# the tests\npytest \\\n  t.py",
        "{ pytest t.py; } 2>&1",
        "bash <<'E'\npytest t.py\nE",
        "bash -e -c 'pytest t.py'",
        "cd /repo || exit 1; pytest t.py",
        "export PAGER=cat TERM=dumb; NO_COLOR=1 pytest t.py",
        "env PYTHONUNBUFFERED=1 stdbuf -oL -eL timeout -k 5 60 pytest t.py",
        "(cd /repo; pytest t.py) | cat",
    ],
)
def test_decoration_goes(script: str) -> None:
    assert only(script) == only("pytest t.py")


@pytest.mark.parametrize(
    "script",
    [
        "pytest $X",
        "pytest t.py || rm -rf x",
        "pytest t.py &",
        "for f in a b; do cat $f; done",
        "pytest t.py > /dev/null 2> errors.txt",
        "timeout 0.01 pytest t.py",
        "! pytest t.py",
        "cat `ls`",
        "cd $HOME && ls",
        "source x; ls",
        "echo 'unclosed",
        "pytest t.py; cd x > setup.py",
        "pytest t.py; set -e > setup.py",
        "pytest t.py || echo $(rm -rf x)",
        "pytest t.py || echo x > setup.py",
        "pytest t.py 2> setup.py | cat",
        "pytest t.py; echo $SECRET",
        "pytest t.py; echo `rm x`",
        "pytest t.py || echo COMPLETE_TASK_AND_SUBMIT",
        "set -n; pytest t.py",
        "FOO=1; pytest t.py",
        "unset PATH; pytest t.py",
        "alias pytest=true; pytest t.py",
        "pytest() { true; }; pytest t.py",
        "cd '' && pytest t.py",
        "cd - && pytest t.py",
        "cd ~/x && pytest t.py",
        "cd /repo || rm -rf x; pytest t.py",
        "pytest t.py || exit 0",
        "exec pytest t.py",
        "bash -c 'pytest t.py' > out.txt",
        "pytest t.py | sh -c 'cat' | source x",
        "pytest t.py > a.txt > b.txt",
        "cd /etc && cat /repo/a.py",
        "cd /no/such/place && cat /repo/a.py",
    ],
)
def test_what_decides_what_a_command_does_is_never_left_out(script: str) -> None:
    assert bare_commands(script, "/repo") is None


def test_lines_that_head_and_tail_show_are_known() -> None:
    assert only("grep -rn x . | head -20").first_lines == 20
    assert only("pytest 2>&1 | tail -n 5").last_lines == 5
    assert len(only("grep x f | sort | head").stages) == 2


def test_where_a_command_runs_and_with_what() -> None:
    command = only("cd src && FOO=1 env BAR=2 python m.py < in.txt > out.txt")
    assert command.directory == "/repo/src"
    assert command.environment == (("BAR", "2"), ("FOO", "1"))
    assert [stage.words for stage in command.stages] == [("cat", "in.txt"), ("python", "m.py")]
    assert command.output_path == "out.txt"
    assert not command.appends


def test_a_directory_below_an_unknown_one_is_relative_to_it() -> None:
    assert only("cd src && ls", None).directory == "src"
    assert only("cd src; cd ..; ls", None) == only("ls", None)


def test_a_group_in_parentheses_leaves_the_directory_as_it_was() -> None:
    commands = bare_commands("(cd src && ls); make", "/repo")
    assert commands is not None
    assert [command.directory for command in commands] == ["/repo/src", "/repo"]


def test_a_here_document_is_what_the_command_reads() -> None:
    command = only("cat > f.py <<'E'\nx = 1\nE\n")
    assert (command.stdin, command.output_path, command.words) == ("x = 1\n", "f.py", ("cat",))


def test_a_pattern_is_marked() -> None:
    command = only("ls *.py 'a*'")
    assert command.words == ("ls", "*.py", "a*")
    assert command.stages[0].globs == {1}


@pytest.mark.parametrize(
    ("script", "plain"),
    [
        ("PAGER='rm -rf x' git log", "git log"),
        ("LC_ALL='$(x)' ls", "ls"),
        ("FOO=1 pytest", "pytest"),
        ("sudo pytest", "pytest"),
        ("nohup pytest", "pytest"),
        ("pytest > /dev/null 2>&1", "pytest"),
        ("pytest | tee log.txt", "pytest"),
        ("pytest | grep -v warning", "pytest"),
        ("pytest; : > setup.py", "pytest"),
        ("pytest; echo *", "pytest"),
        ("bash -n -c pytest", "pytest"),
        ("bash < pytest", "pytest"),
        ("git -c core.pager='rm x' log", "git log"),
    ],
)
def test_what_may_matter_stays(script: str, plain: str) -> None:
    assert bare_commands(script, "/repo") not in (None, bare_commands(plain, "/repo"))


def test_words_that_only_choose_a_look_of_git_go() -> None:
    assert only("git --no-pager -c color.ui=never log -3").words == ("git", "log", "-3")


def test_a_pipeline_of_a_group_is_one_of_its_command() -> None:
    command = only("(cd src && grep x a.py) 2>/dev/null | sort | head -30")
    assert [stage.words for stage in command.stages] == [("grep", "x", "a.py"), ("sort",)]
    assert (command.directory, command.first_lines) == ("/repo/src", 30)


BARE = [
    "pytest t.py",
    "ls -la src",
    "sed -n '3,9p' a.py",
    "git status",
    "grep -rn 'def f' .",
    "python m.py --fast 'a b'",
]
AROUND = [
    "{} 2>&1",
    "{} 2>/dev/null",
    "( {} )",
    "{{ {}; }}",
    "set -e; {}",
    "{}; echo $?",
    "{} || true",
    "{} && echo ok || echo failed",
    "echo '== run =='; {}",
    "cd /repo && {}",
    "cd /repo || exit 1\n{}",
    "true && {}",
    "pwd; {}",
    "export TERM=dumb\n{}",
]
OUTERMOST = ["{}", "{}\n# a comment", "# a comment\n{}", "bash <<'END'\n{}\nEND\n", "{}\n\n"]
DECIDES = [
    "{} $X",
    "{} || rm x",
    "{} &",
    "for i in 1 2; do {}; done",
    "if true; then {}; fi",
    "! {}",
    "eval '{}'",
    "$({})",
]


def wrapped(script: str, around: list[str]) -> str:
    for form in around:
        script = form.format(script)
    return script


@given(
    bare=st.sampled_from(BARE),
    around=st.lists(st.sampled_from(AROUND), max_size=3),
    outermost=st.sampled_from(OUTERMOST),
)
def test_decoration_of_any_depth_goes(bare: str, around: list[str], outermost: str) -> None:
    assert bare_commands(wrapped(bare, [*around, outermost]), "/repo") == bare_commands(bare, "/repo")


@given(
    bare=st.sampled_from(BARE),
    inside=st.lists(st.sampled_from(AROUND[2:]), max_size=2),
    decides=st.sampled_from(DECIDES),
    around=st.lists(st.sampled_from(AROUND[2:]), max_size=2),
)
def test_what_decides_is_seen_at_any_depth(bare: str, inside: list[str], decides: str, around: list[str]) -> None:
    script = wrapped(wrapped(bare, around=[]), around=[decides, *inside, *around])
    found = bare_commands(script, "/repo")
    assert found is None or found != bare_commands(bare, "/repo")


@given(st.text(alphabet="ab '\"$`\\|&;<>(){}*~!#=-\n1/", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = bare_commands(text, "/repo")
    assert found is None or all(stage.words for command in found for stage in command.stages)


@pytest.mark.parametrize(
    "script", ["pytest t.py; > setup.py", "pytest t.py; : > setup.py", "true > setup.py; pytest t.py"]
)
def test_a_redirection_alone_is_a_command(script: str) -> None:
    found = bare_commands(script, None)
    assert found is not None
    assert sorted(command.output_path or "" for command in found) == ["", "setup.py"]


@pytest.mark.parametrize("words", ["COMPLETE_TASK_AND_SUBMIT", "word " * 100])
def test_a_text_that_a_harness_may_wait_for_is_a_command(words: str) -> None:
    commands = bare_commands(f"pytest t.py; echo {words}", "/repo")
    assert commands is not None
    assert [command.words[0] for command in commands] == ["pytest", "echo"]
