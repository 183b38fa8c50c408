"""The watchdog over real processes, without a cgroup."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from paddock.sandbox.failures import SandboxGone
from paddock.sandbox.processes import started_at
from paddock.sandbox.records import SandboxLimits
from paddock.sandbox.watchdog import FreeSpace, HostMemory, Watchdog, WatchdogSettings, monitor
from paddock.sandbox.watchdog.deleted import deleted_use
from paddock.sandbox.watchdog.disk import DiskUse
from paddock.sandbox.watchdog.walk_schedule import WalkSchedule

pytestmark = pytest.mark.sandbox
MIB = 2**20
QUICK = WatchdogSettings(period_s=0.2, disk_period_s=0.2, grace_s=0.5, dying_s=5.0)
FREE = SandboxLimits(memory_mib=None, pids=None, disk_mib=None, disk_files=None)
WAIT_S = 60.0


def limits(**fields: Any) -> SandboxLimits:
    return FREE.model_copy(update=fields)


async def until(claim: Callable[[], Any]) -> None:
    due = time.monotonic() + WAIT_S
    while not claim():
        assert time.monotonic() < due, "it did not come true"
        await asyncio.sleep(0.01)


@pytest.fixture
async def dog() -> AsyncIterator[Watchdog]:
    async with Watchdog(QUICK) as one:
        yield one


async def test_the_hog_is_killed_and_told_and_the_shell_lives(dog: Watchdog, space: Any, told: Any) -> None:
    await dog.watch(told.watched(space, limits(memory_mib=100)))
    space.hold(30)
    space.python('import time; hog = bytearray(b"y") * (150 << 20); time.sleep(60)')
    await until(lambda: told.killed)
    space.say("alive")
    await until(lambda: dog.reading("one").use.memory_bytes < 95 * MIB)
    assert len(told.killed) == 1
    assert "hog = bytearray" in told.killed[0].command
    assert told.killed[0].limit_mib == 100
    assert 60 < told.killed[0].memory_mib < 170
    assert dog.reading("one").memory_kills == 1
    assert dog.reading("one").peak_memory_bytes > 95 * MIB
    assert told.exhausted == [] and told.lost == []


async def test_a_spared_process_outlives_a_smaller_one_that_is_large(dog: Watchdog, space: Any, told: Any) -> None:
    space.hold(70)
    spared = await asyncio.to_thread(_only_python, space)
    await dog.watch(told.watched(space, limits(memory_mib=100), spare=lambda: [spared]))
    space.python('import time; small = bytearray(b"y") * (40 << 20); time.sleep(60)')
    await until(lambda: told.killed)
    assert "small" in told.killed[0].command
    assert started_at(spared) is not None


async def test_memory_in_files_exhausts_the_budget_once(dog: Watchdog, space: Any, told: Any) -> None:
    await dog.watch(told.watched(space, limits(memory_mib=40)))
    space.do("head -c 60M /dev/zero > /dev/shm/file")
    await until(lambda: told.exhausted)
    await asyncio.sleep(0.5)
    assert [budget for budget, _ in told.exhausted] == ["memory"]
    assert "over its limit of 40 MiB" in told.exhausted[0][1]
    assert told.lost == []


async def test_daemons_and_new_sessions_are_counted_and_killed(dog: Watchdog, space: Any, told: Any) -> None:
    await dog.watch(told.watched(space, limits(memory_mib=80)))
    fork = "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); "
    space.python(fork + 'hog = bytearray(b"z") * (120 << 20); time.sleep(60)')
    await until(lambda: told.killed)
    space.say("alive")


async def test_cpu_time_is_a_budget(dog: Watchdog, space: Any, told: Any) -> None:
    await dog.watch(told.watched(space, limits(cpu_s=0.3)))
    space.do("while :; do :; done")
    await until(lambda: told.exhausted)
    assert told.exhausted[0][0] == "cpu"


async def test_processes_are_a_budget_where_no_cgroup_counts_them(dog: Watchdog, space: Any, told: Any) -> None:
    await dog.watch(told.watched(space, limits(pids=16)))
    space.do("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18; do sleep 68 & done")
    await until(lambda: told.exhausted)
    assert told.exhausted[0][0] == "pids"


async def test_what_it_writes_is_a_budget(dog: Watchdog, space: Any, told: Any, tmp_path: Path) -> None:
    await dog.watch(told.watched(space, limits(disk_mib=4), upper=tmp_path))
    space.do(f"head -c 3M /dev/zero > {tmp_path}/a")
    space.say("written")
    assert (await dog.measure("one")).disk.bytes >= 3 * MIB
    assert told.exhausted == []
    space.do(f"head -c 3M /dev/zero > {tmp_path}/b")
    await until(lambda: told.exhausted)
    assert told.exhausted[0][0] == "disk"


HOLD = """
import os, time
for number in range(3):
    held = os.open(f"{UPPER}/{number}", os.O_RDWR | os.O_CREAT)
    os.write(held, bytes(2 << 20))
    os.unlink(f"{UPPER}/{number}")
print("held", flush=True)
time.sleep(60)
"""


def _hold(space: Any, upper: Path, code: str = HOLD) -> None:
    (upper.parent / "hold.py").write_text(f"UPPER = {str(upper)!r}\n{code}")
    space.do(f"{sys.executable} -S {upper.parent / 'hold.py'} &")
    space.hear("held")


@pytest.fixture
def upper(tmp_path: Path) -> Path:
    folder = tmp_path / "upper"
    folder.mkdir()
    return folder


async def test_deleted_files_that_are_open_count(dog: Watchdog, space: Any, told: Any, upper: Path) -> None:
    await dog.watch(told.watched(space, limits(disk_mib=5), upper=upper))
    await asyncio.to_thread(_hold, space, upper)
    await until(lambda: told.exhausted)
    assert told.exhausted[0][0] == "disk"
    assert "MiB on disk, with what is deleted and still open, over its limit of 5 MiB" in told.exhausted[0][1]


async def test_a_file_that_is_deleted_between_walk_and_search_counts_once(
    dog: Watchdog, space: Any, told: Any, upper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = HOLD.replace('    os.unlink(f"{UPPER}/{number}")\n', "")
    await asyncio.to_thread(_hold, space, upper, code)

    def delete_first(*args: Any, **kwargs: Any) -> DiskUse:
        for path in list(upper.iterdir()):
            path.unlink()
        return deleted_use(*args, **kwargs)

    monkeypatch.setattr(monitor, "deleted_use", delete_first)
    await dog.watch(told.watched(space, limits(disk_mib=8), upper=upper))
    assert 6 * MIB <= (await dog.measure("one")).disk.bytes < 7 * MIB
    assert told.exhausted == []


async def test_a_deleted_file_that_has_been_closed_counts_no_more(
    dog: Watchdog, space: Any, told: Any, upper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WalkSchedule, "due_open", lambda *_: False)
    await asyncio.to_thread(_hold, space, upper)
    await dog.watch(told.watched(space, limits(disk_mib=8), upper=upper))
    assert (await dog.measure("one")).disk.bytes >= 6 * MIB
    space.do("kill $!")
    space.do(f"wait; head -c 4M /dev/zero > {upper}/after")
    space.say("written")
    await asyncio.sleep(6 * QUICK.disk_period_s)
    assert (await dog.measure("one")).disk.bytes < 5 * MIB
    assert told.exhausted == []


async def test_a_thread_with_descriptors_of_its_own_hides_nothing(
    dog: Watchdog, space: Any, told: Any, upper: Path
) -> None:
    code = """
import ctypes, threading
libc = ctypes.CDLL(None)
def run():
    libc.unshare(0x400)  # CLONE_FILES
    BODY
threading.Thread(target=run).start()
""".replace("BODY", HOLD.replace("\n", "\n    "))
    await dog.watch(told.watched(space, limits(), upper=upper))
    await asyncio.to_thread(_hold, space, upper, code)
    assert (await dog.measure("one")).disk.bytes >= 6 * MIB


async def test_a_deleted_file_that_only_a_mapping_holds_counts(
    dog: Watchdog, space: Any, told: Any, upper: Path
) -> None:
    if os.geteuid():
        pytest.skip("needs root: only root may follow the files of mappings")
    code = HOLD.replace(
        "    os.write", "    os.ftruncate(held, 4096)\n    kept.append(mmap.mmap(held, 4096))\n    os.write"
    )
    code = "import mmap\nkept = []\n" + code.replace("    os.unlink", "    os.close(held)\n    os.unlink")
    await dog.watch(told.watched(space, limits(), upper=upper))
    # `mmap` keeps a descriptor of its own.
    await asyncio.to_thread(_hold, space, upper, code.replace('print("held"', 'os.closerange(3, 100)\nprint("held"'))
    assert 6 * MIB <= (await dog.measure("one")).disk.bytes < 7 * MIB


async def test_files_are_a_budget(dog: Watchdog, space: Any, told: Any, upper: Path) -> None:
    await dog.watch(told.watched(space, limits(disk_files=20), upper=upper))
    space.do(
        f"mkdir {upper}/deep; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do : > {upper}/deep/$i; done"
    )
    space.say("made")
    assert (await dog.measure("one")).disk.files == 20
    assert told.exhausted == []
    space.do(f": > {upper}/more")
    await until(lambda: told.exhausted)
    assert told.exhausted == [("disk", "it has more than 20 files and folders on disk, its limit")]


async def test_after_unwatch_nothing_is_killed_or_told(dog: Watchdog, space: Any, told: Any) -> None:
    await dog.watch(told.watched(space, limits(memory_mib=60)))
    await dog.unwatch("one")
    await dog.unwatch("one")
    await asyncio.to_thread(space.hold, 90)
    await asyncio.sleep(0.6)
    space.say("alive")
    assert told.killed == [] and told.exhausted == []
    with pytest.raises(SandboxGone):
        dog.reading("one")


async def test_each_sandbox_answers_for_itself(dog: Watchdog, make_space: Any, told: Any) -> None:
    other, others = make_space(), type(told)()
    space = make_space()
    await dog.watch(told.watched(space, limits(memory_mib=60)))
    await dog.watch(others.watched(other, limits(memory_mib=200), sandbox_id="two"))
    await asyncio.to_thread(other.hold, 90)
    await asyncio.to_thread(space.python, 'import time; hog = bytearray(b"h") * (90 << 20); time.sleep(60)')
    await until(lambda: told.killed)
    assert others.killed == [] and (await dog.measure("two")).use.memory_bytes > 90 * MIB


async def test_a_host_without_memory_is_the_machines_failure(make_space: Any, told: Any) -> None:
    small, smalls = make_space(), type(told)()
    space = make_space()
    left = [8000 * MIB]
    dog = Watchdog(QUICK, host=lambda: HostMemory(total=8000 * MIB, available=left[0], swap=0))
    async with dog:
        await dog.watch(told.watched(space, limits(memory_mib=4000)))
        await dog.watch(smalls.watched(small, limits(memory_mib=4000), sandbox_id="two"))
        await asyncio.to_thread(space.hold, 90)
        await until(lambda: dog.reading("one").use.memory_bytes > 90 * MIB)
        left[0] = 100 * MIB
        await until(lambda: told.lost)
        assert told.lost[0].kind == "host_memory" and told.lost[0].retryable
        assert told.exhausted == [] and smalls.lost == [] and smalls.exhausted == []


class Disk:
    """Of all sandboxes; what it has free is what the test says."""

    def __init__(self) -> None:
        self.free = FreeSpace(9000 * MIB, 10**6, 1)

    def __call__(self, folders: Any) -> dict[Path, FreeSpace]:
        return dict.fromkeys(folders, self.free)


@pytest.mark.parametrize("short", [{"bytes": 100 * MIB}, {"files": 9}])
async def test_a_full_disk_is_the_machines_failure_of_the_largest_only(
    make_space: Any, told: Any, tmp_path: Path, short: dict[str, Any]
) -> None:
    smalls, disk = type(told)(), Disk()
    settings = QUICK.model_copy(update={"host_disk_floor_mib": 120.0, "host_disk_floor_files": 10})
    uppers = [tmp_path / "one", tmp_path / "two"]
    for upper in uppers:
        upper.mkdir()
    (uppers[0] / "file").write_bytes(bytes(40 * MIB))
    for number in range(20):
        (uppers[0] / str(number)).touch()
    (uppers[1] / "file").write_bytes(bytes(35 * MIB))
    async with Watchdog(settings, free_space_of=disk) as dog:
        await dog.watch(told.watched(make_space(), limits(disk_mib=4000), upper=uppers[0]))
        await dog.watch(smalls.watched(make_space(), limits(disk_mib=4000), sandbox_id="two", upper=uppers[1]))
        disk.free = disk.free._replace(**short)
        await until(lambda: told.lost)
        await asyncio.sleep(0.5)
        assert told.lost[0].kind == "host_disk" and told.lost[0].retryable
        assert told.exhausted == [] and smalls.lost == [] and smalls.exhausted == []


async def test_on_a_full_disk_who_is_over_its_own_limit_answers_for_itself(
    make_space: Any, told: Any, tmp_path: Path
) -> None:
    others, disk = type(told)(), Disk()
    uppers = [tmp_path / "one", tmp_path / "two"]
    for upper in uppers:
        upper.mkdir()
    (uppers[1] / "file").write_bytes(bytes(80 * MIB))
    async with Watchdog(QUICK.model_copy(update={"disk_period_s": 600.0}), free_space_of=disk) as dog:
        await dog.watch(told.watched(make_space(), limits(disk_mib=30), upper=uppers[0]))
        await dog.watch(others.watched(make_space(), limits(), sandbox_id="two", upper=uppers[1]))
        await dog.measure("one")
        (uppers[0] / "file").write_bytes(bytes(70 * MIB))
        disk.free = disk.free._replace(bytes=100 * MIB)
        await until(lambda: told.exhausted)
        await asyncio.sleep(0.5)
        assert told.exhausted[0][0] == "disk"
        assert told.lost == [] and others.lost == [] and others.exhausted == []


async def test_a_callback_that_raises_does_not_blind_the_watchdog(
    dog: Watchdog, make_space: Any, told: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no")

    first, second = make_space(), make_space()
    watched = told.watched(first, limits(cpu_s=0.1), sandbox_id="first")
    await dog.watch(type(watched)("first", watched.limits, first.pid, broken, broken, broken))
    await dog.watch(told.watched(second, limits(cpu_s=0.1), sandbox_id="second"))
    first.do("while :; do :; done")
    await until(lambda: "a callback of the provider failed" in caplog.text)
    second.do("while :; do :; done")
    await until(lambda: told.exhausted)


async def test_nothing_is_left_when_it_closes(space: Any, told: Any, descriptors: Callable[[], list[str]]) -> None:
    before = descriptors()
    async with Watchdog(QUICK) as dog:
        await dog.watch(told.watched(space, limits(memory_mib=60, disk_mib=5), upper=Path(__file__).parent))
        await dog.measure("one")
        assert len(descriptors()) > len(before)
    assert descriptors() == before


async def test_a_watch_that_was_cancelled_leaves_nothing(
    dog: Watchdog, make_space: Any, told: Any, descriptors: Callable[[], list[str]]
) -> None:
    """A census holds others' namespaces too while a process is in them: in this one there is none at the end."""
    other, space = make_space(), make_space()
    await dog.watch(told.watched(other, FREE, sandbox_id="first"))
    before = _files(descriptors)
    namespace = os.open(f"/proc/{space.pid}/ns/pid", os.O_RDONLY)  # no other gets its number meanwhile
    watching = asyncio.create_task(dog.watch(told.watched(space, limits(memory_mib=60))))
    await asyncio.sleep(0)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    space.do("exit")
    name = f"pid:[{os.fstat(namespace).st_ino}]"
    await until(lambda: descriptors().count(name) == 1)
    os.close(namespace)
    assert _files(descriptors) == before
    with pytest.raises(SandboxGone):
        dog.reading("one")


def _files(descriptors: Callable[[], list[str]]) -> list[str]:
    """Those a watch opens besides namespaces."""
    return [each for each in descriptors() if each.endswith("/shm")]


def _only_python(space: Any) -> int:
    return next(int(word) for word in Path(f"/proc/{space.shell}/task/{space.shell}/children").read_text().split())
