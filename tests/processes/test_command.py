"""Host commands of a build, under the event loops that the project runs on."""

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from paddock.errors import InfraError
from paddock.processes.command import CommandResult, run

Loop = Callable[[Coroutine[Any, Any, CommandResult]], CommandResult]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Loop:
    made: Loop = request.param
    return made


def test_both_streams_come_in_order_with_the_exit_code_and_a_readable_umask(loop: Loop) -> None:
    assert loop(run(["bash", "-c", "umask; echo a >&2; echo $X; exit 3"], env={"X": "b"})) == (3, "0022\na\nb\n")


def test_only_the_end_of_a_long_output_is_kept(loop: Loop) -> None:
    done = loop(run(["bash", "-c", "seq 300000"], keep=1000))
    assert len(done.output) == 1000 and done.output.endswith("300000\n")
    assert done.tail.splitlines()[-1] == "300000" and len(done.tail.splitlines()) == 25


@pytest.mark.slow
def test_a_program_that_is_not_there_and_one_that_does_not_end_are_the_machines_fault(
    loop: Loop, tmp_path: Path
) -> None:
    with pytest.raises(InfraError, match="not installed"):
        loop(run(["no-such-program"]))
    late = tmp_path / "late"
    with pytest.raises(InfraError, match="did not end"):
        loop(run(["bash", "-c", f"trap '' TERM; (sleep 1; touch {late}) & wait"], timeout_s=0.2))
    time.sleep(1.2)
    assert not late.exists(), "its children are dead too"


def test_the_pipe_is_closed_though_a_child_in_another_session_holds_it(loop: Loop) -> None:
    with pytest.raises(InfraError, match="did not end"):
        loop(run(["bash", "-c", "setsid sleep 2 & wait"], timeout_s=0.2))
    gc.collect()
