"""When a sandbox's disk is looked at again: a pure function of what was found, and of what its disk has lost since."""

from paddock.sandbox.records import SandboxLimits
from paddock.sandbox.watchdog import DiskUse, FreeSpace, WatchdogSettings
from paddock.sandbox.watchdog.disk_floor import DiskFloor
from paddock.sandbox.watchdog.walk_schedule import WalkSchedule

MIB = 2**20
LIMITS = SandboxLimits(disk_mib=1000, disk_files=1000)
FREE = FreeSpace(50_000 * MIB, 100_000, 1)


def walked(*, mib: float = 0, files: int = 0, took_s: float = 0.0) -> WalkSchedule:
    """At second 0."""
    walks = WalkSchedule(LIMITS, WatchdogSettings(disk_period_s=5.0))
    assert walks.due(FREE, 0.0)
    walks.record(DiskUse(int(mib * MIB), files, True), FREE, -took_s, 0.0)
    return walks


def test_at_rest_it_is_looked_at_every_period() -> None:
    walks = walked()
    assert not walks.due(FREE, 4.9)
    assert walks.due(FREE, 5.0)


def test_near_a_limit_of_either_kind_it_is_looked_at_sooner() -> None:
    assert walked(mib=990).due(FREE, 0.5)
    assert walked(files=990).due(FREE, 0.5)


def test_a_disk_that_lost_half_of_what_is_left_calls_for_a_look_at_once() -> None:
    lost = FREE._replace(bytes=FREE.bytes - 400 * MIB)
    assert not walked().due(lost, 0.1)
    assert walked(mib=300).due(lost, 0.1)
    assert walked().due(FREE._replace(files=FREE.files - 500), 0.1)


def test_long_walks_are_rare_and_less_so_where_the_limit_may_be_passed() -> None:
    walks = walked(took_s=3.0)
    half, all_of_it = (FREE._replace(bytes=FREE.bytes - lost * MIB) for lost in (600, 1000))
    assert not walks.due(half, 29.0) and walks.due(half, 30.0)
    assert not walks.due(all_of_it, 5.0) and walks.due(all_of_it, 6.0)


def test_open_files_are_looked_for_where_the_disk_has_lost_some_or_long_after() -> None:
    walks = walked()
    assert walks.due_open(FREE, 0.0)
    assert not walks.due_open(FREE._replace(bytes=FREE.bytes - 100 * MIB), 5.0)
    lost = FREE._replace(bytes=FREE.bytes - 130 * MIB)
    assert walks.due_open(lost, 10.0) and not walks.due_open(lost, 15.0)
    assert walks.due_open(lost, 30.0)


def test_a_disk_without_a_number_of_files_is_no_reason() -> None:
    endless = FREE._replace(files=float("inf"))
    walks = WalkSchedule(LIMITS, WatchdogSettings())
    walks.record(DiskUse(0, 0, True), endless, 0.0, 0.0)
    assert not walks.due(endless, 1.0)


def test_the_faster_a_disk_fills_the_sooner_it_is_asked_again() -> None:
    floor = DiskFloor(WatchdogSettings(period_s=1.0, host_disk_floor_mib=256))
    assert floor.look([FREE], 0.0) == [] and floor.period_s == 1.0
    assert floor.look([FREE._replace(bytes=3000 * MIB)], 1.0) == [] and floor.period_s < 0.1
    (short,) = floor.look([FREE._replace(bytes=255 * MIB), FREE._replace(bytes=255 * MIB)], 1.1)
    assert "255 MiB free, under 256 MiB" in short.text


def test_a_floor_of_nothing_is_none() -> None:
    floor = DiskFloor(WatchdogSettings(host_disk_floor_mib=0, host_disk_floor_files=0))
    assert floor.look([FreeSpace(0, 0, 1)], 0.0) == []
