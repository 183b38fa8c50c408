"""Leases of a node: what belongs to one ends with it, and only that."""

import asyncio
from typing import Any, cast

import pytest

from paddock.sandbox import Provider, SandboxGone, SandboxHandle, SandboxSpec
from paddock.sandbox_server.leases import ClientLease, Leases, LeaseUnknownError


class Destroyer:
    """A provider that destroys on cue."""

    def __init__(self) -> None:
        self.destroyed: list[str] = []
        self.broken: set[str] = set()

    async def destroy(self, sandbox_id: str) -> None:
        await asyncio.sleep(0)
        if sandbox_id in self.broken:
            raise OSError("cue")
        self.destroyed.append(sandbox_id)


def leases_of(provider: Any) -> Leases:
    return Leases(cast(Provider, provider))


async def add(lease: ClientLease, name: str) -> None:
    await lease.add(SandboxHandle(sandbox_id=name, runtime="bubblewrap", spec=SandboxSpec(image="any")))


@pytest.mark.slow
async def test_a_lease_that_is_not_renewed_ends_with_its_sandboxes_alone() -> None:
    provider = Destroyer()
    leases = leases_of(provider)
    short, long = leases.open(1), leases.open(60)
    await add(short, "a")
    await add(long, "b")
    for _ in range(6):
        await asyncio.sleep(0.2)
        leases.renew(short)
    assert leases.get(short.id) is short
    async with asyncio.timeout(5):
        while provider.destroyed != ["a"]:
            await asyncio.sleep(0.01)
    with pytest.raises(LeaseUnknownError):
        leases.get(short.id)
    assert leases.get(long.id) is long
    await leases.close()
    assert provider.destroyed == ["a", "b"]
    assert len(leases) == 0


async def test_a_lease_acts_on_its_own_sandboxes_alone() -> None:
    provider = Destroyer()
    leases = leases_of(provider)
    mine, other = leases.open(60), leases.open(60)
    await add(mine, "a")
    mine.check("a")
    with pytest.raises(SandboxGone):
        other.check("a")
    await other.destroy("a")
    assert provider.destroyed == []
    await leases.close()


async def test_a_sandbox_that_comes_after_the_end_is_destroyed() -> None:
    provider = Destroyer()
    leases = leases_of(provider)
    lease = leases.open(60)
    await leases.end(lease)
    await leases.end(lease)
    with pytest.raises(SandboxGone):
        await add(lease, "late")
    assert provider.destroyed == ["late"]


async def test_one_that_can_not_be_destroyed_keeps_no_other(caplog: pytest.LogCaptureFixture) -> None:
    provider = Destroyer()
    provider.broken = {"a"}
    leases = leases_of(provider)
    lease = leases.open(60)
    for name in "abc":
        await add(lease, name)
    await leases.end(lease)
    assert sorted(provider.destroyed) == ["b", "c"]
    assert "cue" in caplog.text
