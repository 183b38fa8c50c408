"""Functions of items for tests of workers: they double numbers, fail, or take their worker with them."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from paddock.collect.item_work import ItemResult, MakeItem, WorkItem
from paddock.errors import ConfigError, RowError
from paddock.types import JsonObject


@asynccontextmanager
async def doubling(given: JsonObject) -> AsyncIterator[MakeItem]:
    """Doubles the number of an item and its bytes. `given`: `token`, a variable that it passes on; `log`, a file that
    each item is written to as it is begun."""
    if given.get("wrong"):
        raise ConfigError("it can not be opened", kind="wrong")

    async def make(item: WorkItem) -> ItemResult:
        number = int(item.value["n"])
        with Path(given["log"]).open("a") as file:  # noqa: ASYNC230 - one line
            file.write(f"{number}\n")
        item.on_progress(f"doubling {number}")
        await asyncio.sleep(item.value.get("wait_s", 0.0))
        if item.value.get("deadly"):
            os.kill(os.getpid(), signal.SIGKILL)
        if number < 0:
            raise RowError(f"{number} is negative", kind="negative")
        if number == 13:
            raise FileNotFoundError(2, "no such luck")
        if number == 14:
            raise KeyError("fourteen")
        return ItemResult({"n": 2 * number, "pid": os.getpid(), "token": os.environ.get("TOKEN")}, 2 * item.body)

    yield make


@asynccontextmanager
async def dying(given: JsonObject) -> AsyncIterator[MakeItem]:
    """Takes its worker with it, whatever it is asked for."""

    async def make(item: WorkItem) -> ItemResult:
        os.kill(os.getpid(), signal.SIGKILL)
        return ItemResult(given)

    yield make
