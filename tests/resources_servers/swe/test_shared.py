"""Claims about what is made once for all that ask."""

import asyncio
import gc
from typing import Any

import pytest

from paddock.resources_servers.swe.grading.shared import SharedTasks


async def failing() -> int:
    await asyncio.sleep(0)
    raise ValueError("made nothing")


async def asked(shared: SharedTasks[int], make: Any) -> int:
    return await asyncio.shield(shared.task("key", make))


async def test_a_failure_after_all_who_asked_have_gone_is_nobodys_news() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    shared = SharedTasks[int](1)
    one = asyncio.create_task(asked(shared, failing))
    await asyncio.sleep(0)
    one.cancel()
    await asyncio.wait([one])
    for _ in range(3):
        await asyncio.sleep(0)
    shared.drop("key", shared.task("key", failing))
    await shared.close()
    del one
    gc.collect()
    await asyncio.sleep(0)
    assert told == []


async def test_a_failure_is_told_to_all_and_made_again_for_the_next() -> None:
    shared = SharedTasks[int](1)
    told = await asyncio.gather(asked(shared, failing), asked(shared, failing), return_exceptions=True)
    assert [type(one) for one in told] == [ValueError, ValueError]

    async def work() -> int:
        return 5

    assert await asked(shared, work) == 5
    assert await asked(shared, failing) == 5
    await shared.close()


async def test_what_runs_ends_with_it() -> None:
    shared = SharedTasks[int](1)
    ended = []

    async def work() -> int:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return 1

    one = asyncio.create_task(asked(shared, work))
    await asyncio.sleep(0.01)
    one.cancel()
    await asyncio.wait([one])
    assert ended == []
    await shared.close()
    assert ended == [True]
    with pytest.raises(asyncio.CancelledError):
        await one
