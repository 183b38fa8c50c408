"""Claims about bare commands: what decorates a command goes, what decides what it does is never overlooked."""

import pytest

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


def test_a_relative_directory_below_an_unknown_one_is_unknown() -> None:
    assert only("cd src && ls", None).directory is None


def test_a_group_in_parentheses_leaves_the_directory_as_it_was() -> None:
    commands = bare_commands("(cd src && ls); pwd", "/repo")
    assert commands is not None
    assert [command.directory for command in commands] == ["/repo/src", "/repo"]


def test_a_here_document_is_what_the_command_reads() -> None:
    command = only("cat > f.py <<'E'\nx = 1\nE\n")
    assert (command.stdin, command.output_path, command.words) == ("x = 1\n", "f.py", ("cat",))


def test_a_pattern_is_marked() -> None:
    command = only("ls *.py 'a*'")
    assert command.words == ("ls", "*.py", "a*")
    assert command.stages[0].globs == {1}
