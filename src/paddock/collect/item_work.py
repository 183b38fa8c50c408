"""What a worker in a process of its own does with independent items; its driver's side is `items`.

Function  named by the driver: it gets what is given, and makes a block whose value is the item's function.
Errors    of an item are told, whatever they are, and the worker goes on: a PaddockError as it is, any other as ours.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pkgutil import resolve_name
from typing import NamedTuple, NoReturn

from paddock.collect.attempts import RunningReport
from paddock.collect.jobs import SendMessage, WorkerMessage, WorkerSetup
from paddock.errors import BugError, InfraError, PaddockError, boundary
from paddock.types import JsonObject


class WorkItem(NamedTuple):
    """One item, as its function gets it."""

    value: JsonObject
    body: bytes
    on_progress: Callable[[str], None]
    """Called with what is being done now."""


class ItemResult(NamedTuple):
    """What an item came to."""

    value: JsonObject
    body: bytes = b""


MakeItem = Callable[[WorkItem], Awaitable[ItemResult]]
OpenItems = Callable[[JsonObject], AbstractAsyncContextManager[MakeItem]]


class ItemRunner:
    """Makes items by a function."""

    def __init__(self, make: MakeItem) -> None:
        self._make = make
        self._sending: set[asyncio.Task[None]] = set()

    async def run(self, message: WorkerMessage, send: SendMessage) -> None:
        number = message.head["job"]

        def on_progress(doing: str) -> None:
            task = asyncio.ensure_future(send(WorkerMessage({"job": number, "doing": doing})))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

        try:
            result = await self._made(WorkItem(message.head["item"], message.body, on_progress))
        except PaddockError as error:
            await send(WorkerMessage({"job": number, "error": error.to_wire()}))
            return
        await send(WorkerMessage({"job": number, "result": result.value}, result.body))

    async def _made(self, item: WorkItem) -> ItemResult:
        try:
            with boundary(BugError, "worker"):
                return await self._make(item)
        except BugError as error:
            if isinstance(error.__cause__, OSError):
                raise InfraError(str(error.__cause__), kind="os_error") from error
            raise

    def report(self) -> RunningReport:
        return RunningReport()

    async def failed(self) -> NoReturn:
        await asyncio.Future()
        raise AssertionError("nothing of it fails for all items")


@asynccontextmanager
async def open_items(setup: WorkerSetup) -> AsyncIterator[ItemRunner]:
    function: OpenItems = resolve_name(str(setup.given["opens"]))
    async with function(setup.given["given"]) as make:
        yield ItemRunner(make)
