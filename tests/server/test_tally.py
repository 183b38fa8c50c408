"""Claims about what happens many times at once."""

import asyncio

from paddock.server.tally import Tally


async def test_many_at_once_are_told_once_and_none_is_not_told() -> None:
    told: list[int] = []
    tally = Tally(told.append)
    for _ in range(64):
        tally.add()
    assert told == []
    tally.tell()
    tally.tell()
    assert told == [64]


async def test_one_is_told_although_nobody_asks() -> None:
    told: asyncio.Queue[int] = asyncio.Queue()
    tally = Tally(told.put_nowait)
    tally.add()
    assert await told.get() == 1
