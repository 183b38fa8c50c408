"""Claims about examining an installed program: what differs from what was installed is said, and nothing is left."""

from pathlib import Path

import psutil
import pytest
from tests.support.processes import gone
from tests.support.programs import environ_with, make_npm, make_python, program

from paddock.harness.programs.installation import InstalledProgram
from paddock.harness.programs.installation_check import problems
from paddock.harness.programs.store import ProgramStore

SAY = "node_modules/say/bin/say"


def installed(tmp_path: Path, steps: str = ":") -> InstalledProgram:
    make_npm(tmp_path / "tools", steps)
    return ProgramStore(tmp_path / "home", environ=environ_with(tmp_path / "tools")).install(program())


def wrong(one: InstalledProgram, *, timeout_s: float = 30.0) -> list[str]:
    return problems(one, program(), timeout_s=timeout_s)


def test_nothing_is_wrong_with_a_fresh_one(tmp_path: Path) -> None:
    assert wrong(installed(tmp_path)) == []


def test_a_changed_file_is_named_and_not_run(tmp_path: Path) -> None:
    one = installed(tmp_path)
    (one.folder / SAY).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho 1.0.0\n")
    (told,) = wrong(one)
    assert f"{one.folder}/bin/say: not the file that was installed" in told
    assert not (tmp_path / "ran").exists()


def test_a_file_that_is_gone_or_can_not_be_run_is_named(tmp_path: Path) -> None:
    one = installed(tmp_path)
    (one.folder / SAY).chmod(0o644)
    assert wrong(one) == [f"{one.folder}/bin/say: can't be run"]
    (one.folder / SAY).unlink()
    assert wrong(one) == [f"{one.folder}/bin/say: No such file or directory"]


@pytest.mark.parametrize(
    ("says", "right"), [("2.0.0", False), ("1.0.0", True), ("v1.0.0 (x)", True), ("11.0.0", False)]
)
def test_the_version_has_to_be_the_one_that_it_says(tmp_path: Path, says: str, right: bool) -> None:
    one = installed(tmp_path, f"printf '#!/bin/sh\\necho \"{says}\"\\n' > {SAY}")
    found = wrong(one)
    assert found == ([] if right else [f"{one.folder}/bin/say: says '{says}', not 1.0.0"])


def test_a_command_that_fails_is_quoted(tmp_path: Path) -> None:
    one = installed(tmp_path, f"printf '#!/bin/sh\\necho no libc; exit 127\\n' > {SAY}")
    assert wrong(one) == [f"{one.folder}/bin/say: exit code 127: no libc"]


@pytest.mark.slow
def test_a_command_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    lines = f"(setsid sleep 1000 & echo $! >> {pids}; wait) & echo $$ >> {pids}; wait"
    one = installed(tmp_path, f"printf '#!/bin/sh\\n{lines}\\n' > {SAY}")
    assert wrong(one, timeout_s=1) == [f"{one.folder}/bin/say: no answer in 1 s"]
    started = [int(line) for line in pids.read_text().split()]
    assert gone([psutil.Process(pid) for pid in started if psutil.pid_exists(pid)], within_s=10)


def test_it_runs_in_a_home_that_is_empty_and_gone_afterwards(tmp_path: Path) -> None:
    lines = f'ls -A \\"$HOME\\" > {tmp_path}/seen; echo \\"$HOME\\" > {tmp_path}/at; touch \\"$HOME/x\\"; echo 1.0.0'
    one = installed(tmp_path, f"printf '#!/bin/sh\\n{lines}\\n' > {SAY}")
    assert wrong(one) == []
    assert (tmp_path / "seen").read_text() == ""
    assert not Path((tmp_path / "at").read_text().strip()).exists()


@pytest.mark.slow
def test_an_environment_says_the_versions_of_what_was_asked_for(tmp_path: Path) -> None:
    environ = environ_with(tmp_path / "tools")
    for version, told in [("1.0.0", []), ("2.0.0", ["bin/python: says '1.0.0', not 2.0.0"])]:
        make_python(tmp_path / "tools", said="1.0.0")
        wanted = program("pip", version=version)
        one = ProgramStore(tmp_path / "home", environ=environ).install(wanted)
        assert problems(one, wanted) == [f"{one.folder}/{text}" for text in told]
