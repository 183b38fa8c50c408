"""What one look at a sandbox leads to, when its memory comes back while we look."""

from typing import Any

import pytest

from paddock.sandbox.records import SandboxLimits
from paddock.sandbox.watchdog import WatchdogSettings
from paddock.sandbox.watchdog.monitor import BudgetOverrun, SandboxMonitor

pytestmark = pytest.mark.sandbox
MIB = 2**20
LIMITS = SandboxLimits(memory_mib=100, pids=None, disk_mib=None)
SETTINGS = WatchdogSettings(grace_s=1.0, dying_s=0.0)


class CgroupStub:
    """A cgroup of real processes whose memory is what the test says, one figure for each time it is read."""

    def __init__(self, members: list[int]) -> None:
        self.figures_mib: list[int] = []
        self._members = members

    def members(self) -> list[int]:
        return self._members

    def memory(self) -> int:
        return self.figures_mib.pop(0) * MIB

    def pids(self) -> int:
        return len(self._members)

    def cpu_s(self) -> float:
        return 0.0

    def oom_kills(self) -> int:
        return 0

    def limit_hits(self) -> int:
        return 0


@pytest.fixture
def group(space: Any) -> CgroupStub:
    space.hold(30)
    return CgroupStub(space.below())


@pytest.fixture
def monitor(space: Any, told: Any, group: CgroupStub) -> SandboxMonitor:
    watched = told.watched(space, LIMITS, cgroup=group)
    return SandboxMonitor(watched, SETTINGS, now=0.0, swap=False, belongs=lambda _: True)


def test_none_is_killed_for_what_another_had_before(monitor: SandboxMonitor, group: CgroupStub, space: Any) -> None:
    group.figures_mib = [150, 40]
    assert monitor.look([], 0.0) == []
    space.say("alive")
    assert len(space.below()) == 1
    assert monitor.reading.use.memory_bytes == 40 * MIB
    group.figures_mib = [150, 150]
    (killed,) = monitor.look([], 0.1)
    assert "block = bytearray" in killed.command  # type: ignore[union-attr]


def test_a_budget_is_not_used_up_by_memory_that_has_come_back(monitor: SandboxMonitor, group: CgroupStub) -> None:
    group.figures_mib = [150, 150, 150, 40, 150, 40, 150, 150, 150, 150]
    assert len(monitor.look([], 0.0)) == 1
    assert monitor.look([], 2.0) == []
    assert monitor.look([], 4.0) == []
    assert monitor.look([], 6.0) == [], "the grace begins again"
    (event,) = monitor.look([], 7.5)
    assert isinstance(event, BudgetOverrun)
    assert event.budget == "memory"
