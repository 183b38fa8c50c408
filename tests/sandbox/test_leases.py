"""Claims about things that servers of one process share."""

import asyncio
from typing import Any

import pytest

from paddock.sandbox.leases import Lease, lease


class LeasedThing:
    """Counts openings and closings."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed: list[str] = []
        self.fail = False

    async def make(self) -> str:
        await asyncio.sleep(0)
        if self.fail:
            raise OSError("no")
        self.opened += 1
        return f"thing {self.opened}"

    async def close(self, thing: str) -> None:
        self.closed.append(thing)

    async def lease(self, name: Any = "name") -> Lease[str]:
        return await lease(name, self.make, self.close)


async def test_equal_names_share_one_and_the_last_release_closes() -> None:
    made = LeasedThing()
    one, two = await asyncio.gather(made.lease(), made.lease())
    assert one.value == two.value == "thing 1"
    await one.release()
    await one.release()
    assert made.closed == []
    await two.release()
    assert made.closed == ["thing 1"]
    again = await made.lease()
    assert again.value == "thing 2"
    await again.release()


async def test_other_names_share_nothing() -> None:
    made = LeasedThing()
    one, two = await made.lease("a"), await made.lease("b")
    assert one.value != two.value
    await one.release()
    await two.release()


async def test_a_failed_opening_is_nobodys() -> None:
    made = LeasedThing()
    made.fail = True
    with pytest.raises(OSError):
        await made.lease()
    made.fail = False
    held = await made.lease()
    assert held.value == "thing 1"
    await held.release()
    assert made.closed == ["thing 1"]


def test_loops_do_not_share() -> None:
    made = LeasedThing()

    async def take() -> str:
        return (await made.lease()).value

    assert [asyncio.run(take()), asyncio.run(take())] == ["thing 1", "thing 2"]
