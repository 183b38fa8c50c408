"""Which process is killed, and that no other is."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.sandbox.processes import Process
from paddock.sandbox.watchdog.victim import Victim, choose, identify, is_doomed, kill, lineage

sizes = st.dictionaries(st.integers(2, 99), st.integers(0, 1000), max_size=12)


@pytest.fixture
def sleeper(until: Callable[[Callable[[], Any]], Any]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "67"])
    until(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes())  # empty while a program is being started
    yield process
    process.kill()
    process.wait()


@given(sizes=sizes, spare=st.sets(st.integers(2, 99)), large=st.integers(1, 500))
def test_the_victim_is_large_and_no_larger_one_was_not_spared(
    sizes: dict[int, int], spare: set[int], large: int
) -> None:
    pid = choose(sizes, spare=spare, large_bytes=large)
    if pid is None:
        assert all(size < large for size in sizes.values())
        return
    assert sizes[pid] >= large
    assert all(size <= sizes[pid] for other, size in sizes.items() if other not in spare)
    assert pid not in spare or all(size < large for other, size in sizes.items() if other not in spare)


def test_a_shell_dies_only_where_nothing_else_is_large() -> None:
    assert choose({7: 900, 8: 100}, spare={7}, large_bytes=50) == 8
    assert choose({7: 900, 8: 100}, spare={7}, large_bytes=200) == 7


def test_the_process_that_was_chosen_is_killed(sleeper: subprocess.Popen[bytes]) -> None:
    victim = identify(sleeper.pid, 1)
    assert victim and victim.command == "sleep 67"
    assert kill(victim, lambda pid: pid == sleeper.pid)
    assert sleeper.wait() == -9
    assert is_doomed(victim.process)
    assert identify(sleeper.pid, 1) is None


def test_an_id_that_came_to_mean_another_process_is_not_killed(sleeper: subprocess.Popen[bytes]) -> None:
    found = identify(sleeper.pid, 1)
    assert found
    earlier = Victim(Process(sleeper.pid, found.process.started - 1), found.command, 1)
    assert not kill(earlier, lambda _: True)
    assert sleeper.poll() is None


def test_a_process_that_is_not_the_sandboxs_is_not_killed(sleeper: subprocess.Popen[bytes]) -> None:
    found = identify(sleeper.pid, 1)
    assert found and not is_doomed(found.process)
    assert not kill(found, lambda _: False)
    assert sleeper.poll() is None


@pytest.mark.sandbox
def test_what_holds_the_sandbox_up_is_the_line_from_the_inner_process_to_the_first(space: Any) -> None:
    pid, shell = space.pid, space.shell
    assert lineage(shell, pid) == {shell, pid}
    assert lineage(pid, pid) == {pid}
