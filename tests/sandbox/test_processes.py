"""Trees of processes are killed as a whole, and nothing in them sees it coming."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paddock.sandbox.processes import (
    Process,
    descendants,
    kill_below,
    kill_tree,
    process_of,
    signal_process,
    started_at,
)


@contextmanager
def running(script: str) -> Iterator[subprocess.Popen[bytes]]:
    """A shell that has said a line."""
    with subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, stdin=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield process
        finally:
            for one in descendants(process_of(process.pid)):
                signal_process(one, signal.SIGKILL)
            process.kill()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().split()[3])


async def soon(pid: int, count: int) -> list[Process]:
    deadline = time.monotonic() + 60
    while len(found := descendants(process_of(pid))) != count:
        assert time.monotonic() < deadline, f"{found} are not {count} processes"
        await asyncio.sleep(0.01)
    return found


def test_a_process_is_named_by_its_start_too() -> None:
    with running("echo up; read x") as process:
        started = started_at(process.pid)
        assert started is not None
        assert not signal_process(Process(process.pid, started + 1), signal.SIGKILL)
        assert process.poll() is None
        assert signal_process(Process(process.pid, started), signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
        assert started_at(process.pid) is None
        assert not signal_process(Process(process.pid, started), signal.SIGKILL)


def test_a_zombie_is_no_process() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert started_at(pid) is None
    os.waitpid(pid, 0)


def test_names_with_brackets_and_blanks_do_not_mislead(tmp_path: Path) -> None:
    program = tmp_path / "a) Z 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as process:
        time.sleep(0.05)
        assert started_at(process.pid) == started_at(process.pid) is not None
        process.kill()


async def test_descendants_are_all_below_parents_first() -> None:
    with running("sh -c 'sh -c \"sleep 60; :\"; :' & sleep 60 & echo up; wait") as process:
        found = await soon(process.pid, 4)
        assert started_at(process.pid) not in {one.started for one in found if one.pid == process.pid}
        parents = {one.pid: parent_of(one.pid) for one in found}
        seen = {process.pid}
        for one in found:
            assert parents[one.pid] in seen
            seen.add(one.pid)


async def test_no_part_of_a_killed_tree_goes_on_when_another_dies() -> None:
    for _ in range(5):
        with running("echo up; sleep 60; echo after; sh -c 'sleep 60; echo after'; echo after") as process:
            await soon(process.pid, 1)
            assert await kill_tree(process_of(process.pid))
            assert process.stdout
            assert process.stdout.read() == b""
            assert process.wait(60) == -signal.SIGKILL


async def test_what_ignores_signals_or_goes_on_forking_is_killed() -> None:
    script = "trap '' TERM INT HUP; f() { sleep 60 & sleep 0.01; f & }; f; echo up; while :; do sleep 60; done"
    with running(script) as process:
        await asyncio.sleep(0.1)
        assert await kill_tree(process_of(process.pid))
        assert process.wait(60) == -signal.SIGKILL
        assert descendants(process_of(process.pid)) == []


async def test_what_is_spared_lives_and_the_top_goes_on() -> None:
    with running("sh -c 'sleep 60; :' & echo up; read x; sleep 60 & sleep 60; echo still here") as process:
        before = await soon(process.pid, 2)
        assert process.stdin and process.stdout
        process.stdin.write(b"go\n")
        process.stdin.flush()
        await soon(process.pid, 4)
        assert await kill_below(process_of(process.pid), spare=before)
        assert await asyncio.to_thread(process.stdout.readline) == b"still here\n"
        assert {one for one in before if started_at(one.pid) == one.started} == set(before)


async def test_a_process_that_is_gone_has_nothing_to_kill() -> None:
    with running("echo up; read x") as process:
        gone = process_of(process.pid)
    for one in (gone, None):
        assert descendants(one) == []
        assert await kill_tree(one)
        assert await kill_below(one)


def test_the_children_of_another_with_the_same_id_are_not_below() -> None:
    with running("sleep 60 & echo up; wait") as process:
        top = process_of(process.pid)
        assert top
        assert descendants(top)
        assert descendants(Process(top.pid, top.started - 1)) == []
