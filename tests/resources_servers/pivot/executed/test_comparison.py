"""Claims on how outputs are read: what was said, and how long an output may hold a judgement up."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.resources_servers.pivot.executed.commands import is_printed, read_commands
from paddock.resources_servers.pivot.executed.comparison import compare_runs, without_chance
from paddock.resources_servers.pivot.executed.options import ExecutedOptions
from paddock.resources_servers.pivot.executed.runs import ActionRun
from paddock.tools import ShellCommand

OPTIONS = ExecutedOptions()
SHOWN = "\n".join(f"a shown line of some words {number}" for number in range(200))
MANY = "\n".join(f"another line of some words {number} and {number * 7}" for number in range(25_000))
COMMANDS = ["printf " + "word " * 4000, "; ".join(f"echo line{number} is here" for number in range(400))]


@given(st.text("ab_ .", min_size=1, max_size=4), st.text("ab_ .", max_size=12))
def test_a_line_is_said_where_it_stands_by_itself(line: str, said: str) -> None:
    assert is_printed(line, said) == (re.search(rf"(?<!\w){re.escape(line)}(?!\w)", said) is not None)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("changed", [{}, pytest.param({"/testbed/a.py": "1"}, marks=pytest.mark.slow)])
def test_no_output_holds_a_judgement_up(command: str, changed: dict[str, str]) -> None:
    """Of CPU; where each line is searched in the command by an expression of its own, it takes half a minute."""
    commands = read_commands([ShellCommand("python a.py")], [ShellCommand(command)], "/testbed")
    start = time.process_time()
    found = compare_runs(ActionRun(changed, SHOWN), ActionRun(changed, MANY), commands, OPTIONS)
    assert (found.same, found.reason) == (False, "output_differs")
    assert not compare_runs(ActionRun(changed, MANY), ActionRun(changed, MANY[::-1]), commands, OPTIONS).same
    assert time.process_time() - start < 10


@pytest.mark.timeout(20)  # Each would take minutes where work grows faster than its text.
@pytest.mark.parametrize("unit", ["1", "/", "1.", "1 passed in 1s ", "a-", "=", "\n\n"])
def test_no_line_holds_a_judgement_up(unit: str) -> None:
    commands = read_commands([ShellCommand("python a.py")], [ShellCommand("python ./a.py")], "/testbed")
    shown = "Ran 1 test in 1s\n3 passed in 1s " + unit * (400_000 // len(unit)) + "!"
    own, again = ActionRun({"a": "1"}, SHOWN), ActionRun({"a": "1"}, SHOWN[:-1])
    for actual in (ActionRun({"a": "1"}, shown), ActionRun({"a": "1"}, shown[-90_000:])):
        assert not compare_runs(own, actual, commands._replace(runs_tests=True), OPTIONS).same
        assert not compare_runs(actual, own, commands._replace(runs_tests=True), OPTIONS).same
        assert not compare_runs(*without_chance(own, again, actual), commands, OPTIONS).same


def test_a_long_output_is_compared_where_the_experts_is_as_long() -> None:
    commands = read_commands([ShellCommand("python a.py")], [ShellCommand("python ./a.py")], "/testbed")
    assert compare_runs(ActionRun({}, MANY), ActionRun({}, MANY), commands, OPTIONS).same
