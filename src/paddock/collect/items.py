"""Independent items, made by worker processes: on this machine, or on the nodes of a Ray cluster (`worker_nodes`).

    work = ItemWork("my_package.my_work:open_work", given={"runs": 3})
    async with open_item_workers(work, WorkerSpread(cluster="auto"), at_once=8) as workers:
        made = await workers.make({"row": row}, on_progress=print)

Work    `opens` names a function of ours: of what is given it makes a block, whose value is an async function from an
        item to a result, both JSON with bytes beside it (`item_work`). It is imported in the workers alone.
Law     an item is given to one worker at a time. Where that is lost, it is made again by another one, at most
        `attempts` times in all. Only the driver writes what all this comes to; the workers end with the block.
Errors  `make` raises what the item's function raised; `WorkerLostError` when its attempts are used up; InfraError
        `workers_lost` when no worker is left. Opening: what is wrong with the work, or a worker's start.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import NamedTuple

from paddock.collect.jobs import WorkerMessage, WorkerSetup
from paddock.collect.worker_nodes import WorkerNodes, connect_nodes
from paddock.collect.worker_pool import WorkerPool
from paddock.collect.worker_process import LinkedPlace
from paddock.collect.worker_spread import WorkerSpread
from paddock.collect.workers import WorkerLostError
from paddock.errors import BugError, PaddockError, from_wire
from paddock.types import JsonObject

OPENS = "paddock.collect.item_work:open_items"


class ItemWork(NamedTuple):
    """What is done with items."""

    opens: str
    """`module:function`."""
    given: JsonObject
    env: dict[str, str] = {}
    """Variables that workers of other machines need."""


class MadeItem(NamedTuple):
    """What an item came to."""

    result: JsonObject
    body: bytes
    where: str | None
    """The node that it was made on; None: this machine."""


class ItemJob(NamedTuple):
    """One item for a worker."""

    item: JsonObject
    body: bytes

    def to_message(self, number: int) -> WorkerMessage:
        return WorkerMessage({"job": number, "item": self.item}, self.body)

    async def deliver(self, message: WorkerMessage, sink: "ItemRun") -> bool:
        head = message.head
        if "doing" in head:
            sink.on_progress(head["doing"])
            return False
        if "error" in head:
            sink.fail(from_wire(500, head["error"]))
        else:
            sink.done(head["result"], message.body)
        return True


class ItemRun:
    """An item with a worker."""

    def __init__(self, on_progress: Callable[[str], None], where: str | None) -> None:
        self.on_progress = on_progress
        self._where = where
        self._made: MadeItem | None = None
        self._error: PaddockError | None = None

    def done(self, result: JsonObject, body: bytes) -> None:
        self._made = MadeItem(result, body, self._where)

    def fail(self, error: PaddockError) -> None:
        self._error = error

    def made(self) -> MadeItem:
        """What it came to, when it has ended."""
        if self._made is None:
            raise self._error or BugError("an item that has not ended", kind="item_open")
        return self._made


class ItemWorkers:
    """Workers that make items; see `open_item_workers`."""

    def __init__(self, pool: WorkerPool, attempts: int) -> None:
        self._pool = pool
        self._attempts = attempts

    async def make(
        self, item: JsonObject, body: bytes = b"", *, on_progress: Callable[[str], None] = lambda _: None
    ) -> MadeItem:
        """Have an item made by whichever worker is free first."""
        job = ItemJob(item, body)
        n_lost = 0
        while True:
            load = await self._pool.take()
            run = ItemRun(on_progress, load.worker.link.where)
            try:
                await load.worker.run(job, run)
                return run.made()
            except WorkerLostError as error:
                n_lost += 1
                if n_lost == self._attempts:
                    text = f"{n_lost} workers were lost with it; the last {error.message}"
                    raise WorkerLostError(text) from None
            except PaddockError:
                raise
            except Exception as error:
                raise BugError(f"worker: {type(error).__name__}: {error}", kind=type(error).__name__) from error
            finally:
                self._pool.give_back(load)


@asynccontextmanager
async def open_item_workers(
    work: ItemWork,
    spread: WorkerSpread,
    *,
    at_once: int | None = None,
    n_items: int | None = None,
    nodes: WorkerNodes | None = None,
) -> AsyncIterator[ItemWorkers]:
    """Start the workers.

    at_once     items that they share; None: one for each worker.
    n_items     how many there are at most; None: that is not known. No more workers are started.
    nodes       what is connected to already.
    """
    most = spread.most(at_once, n_items)
    async with AsyncExitStack() as stack:
        nodes = nodes or stack.enter_context(connect_nodes(spread))

        def make(nth: int) -> LinkedPlace:
            setup = _setup(work, spread, spread.slots(nth, at_once, most))
            return LinkedPlace(f"worker-{nth}", setup, nodes.open_link, start_timeout_s=spread.start_timeout_s)

        opened = await stack.enter_async_context(nodes.open_places(make, most))
        pool = WorkerPool(at_once, max_restarts=spread.max_restarts, restart_wait_s=spread.restart_wait_s)
        keeper = asyncio.create_task(pool.keep(opened))
        try:
            yield ItemWorkers(pool, spread.attempts)
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper


def _setup(work: ItemWork, spread: WorkerSpread, slots: int) -> WorkerSetup:
    return WorkerSetup(
        opens=OPENS,
        given={"opens": work.opens, "given": work.given},
        slots=slots,
        env=work.env if spread.cluster is not None else {},
        path=sys.path,
        silence_s=spread.silence_s,
        stop_timeout_s=spread.stop_timeout_s,
    )
