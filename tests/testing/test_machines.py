"""Machines in namespaces: what one has, the others do not see, and nothing of one outlives it."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from paddock.testing.machines import Machine, machines, why_no_machines

WHY_NOT = why_no_machines()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
CHILD = """
import sys, time
from paddock.testing.machines import machines
with machines(2) as (first, _):
    running = first.start(["sleep", "987654"])
    print(first.disk, flush=True)
    time.sleep(100)
"""


@pytest.fixture(scope="module")
def pair() -> Iterator[list[Machine]]:
    with machines(2) as pair:
        yield pair


def _reaches(machine: Machine, address: str) -> bool:
    probe = f"import socket; socket.create_connection(({address!r}, 5000), 2).close()"
    with machine.start([sys.executable, "-c", probe], stderr=subprocess.DEVNULL) as process:
        return process.wait() == 0


def test_each_has_its_own_disk_temporary_folder_host_name_and_processes(pair: list[Machine]) -> None:
    first, second = pair
    for machine in pair:
        machine.run(["sh", "-c", 'echo "$0" > /tmp/own; echo "$0" > /dev/shm/own; hostname > "$1/host"', machine.name,
                     str(machine.disk)])  # fmt: skip
    assert first.run(["cat", "/tmp/own", "/dev/shm/own", f"{first.disk}/host"]).split() == ["m1", "m1", "m1"]
    assert second.run(["cat", "/tmp/own", "/dev/shm/own", f"{second.disk}/host"]).split() == ["m2", "m2", "m2"]
    assert not Path("/tmp/own").exists()
    assert second.run(["sh", "-c", f"ls {first.disk.parent}"]).split() == ["m2"]
    assert int(first.run(["sh", "-c", "ls -d /proc/[0-9]* | wc -l"])) < 10


@pytest.mark.slow
def test_they_reach_each_other_by_address_and_not_by_loopback(pair: list[Machine]) -> None:
    first, second = pair
    serve = "import http.server as h; h.HTTPServer(('0.0.0.0', 5000), h.SimpleHTTPRequestHandler).serve_forever()"
    with first.start([sys.executable, "-c", serve], stderr=subprocess.DEVNULL) as serving:
        for _ in range(50):
            if _reaches(second, "m1"):
                break
        assert _reaches(second, first.address)
        assert _reaches(first, "127.0.0.1")
        assert not _reaches(second, "127.0.0.1")
        first.cut()
        assert not _reaches(second, first.address)
        assert _reaches(first, "127.0.0.1")
        first.mend()
        assert _reaches(second, first.address)
        serving.kill_inside()


@pytest.mark.slow
def test_a_killed_machine_ends_with_all_its_processes_at_once() -> None:
    with machines(2) as (first, second):
        lost = first.start(["sh", "-c", "setsid sleep 987655 & sleep 987656"])
        living = second.start(["sleep", "987657"])
        first.kill()
        assert lost.wait(5) != 0
        assert living.poll() is None
        assert [command for command in _commands() if command[-1] in ("987655", "987656")] == []
        second.kill()
        living.wait(5)


@pytest.mark.slow
def test_nothing_is_left_where_their_owner_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        disk = Path(owner.stdout.readline().strip())
        owner.send_signal(signal.SIGKILL)
    with machines(1):
        pass
    assert [command for command in _commands() if command[-1] == "987654"] == []
    assert list(Path("/sys/class/net").glob(f"pk{owner.pid:x}*")) == []
    shutil.rmtree(disk.parent)


def _commands() -> list[list[str]]:
    return [command for process in psutil.process_iter() if (command := _command(process))]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
