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
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import NamedTuple

from paddock.collect.jobs import WorkerMessage, WorkerSetup
from paddock.collect.restarts import employ_all
from paddock.collect.shares import FirstStarts, has_room
from paddock.collect.worker_nodes import OpenPlaces, WorkerNodes, connect_nodes
from paddock.collect.worker_process import LinkedPlace, LinkedWorker
from paddock.collect.worker_spread import WorkerSpread
from paddock.collect.workers import WorkerLostError
from paddock.errors import BugError, InfraError, PaddockError, from_wire
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
    """An item until it is made."""

    def __init__(self, job: ItemJob, on_progress: Callable[[str], None]) -> None:
        self.job = job
        self.on_progress = on_progress
        self.made: asyncio.Future[MadeItem] = asyncio.get_running_loop().create_future()
        self.where: str | None = None
        """Where it is tried."""
        self.n_lost = 0
        """How many workers were lost with it."""

    def done(self, result: JsonObject, body: bytes) -> None:
        if not self.made.done():
            self.made.set_result(MadeItem(result, body, self.where))

    def fail(self, error: PaddockError) -> None:
        if not self.made.done():
            self.made.set_exception(error)


class ItemLoad:
    """What a worker has in flight."""

    def __init__(self, worker: LinkedWorker) -> None:
        self.worker = worker
        self.n_running = 0

    @property
    def slots(self) -> int:
        return self.worker.slots


class ItemWorkers:
    """Workers that make items; see `open_item_workers`."""

    def __init__(self, spread: WorkerSpread, at_once: int | None) -> None:
        self._spread = spread
        self._at_once = at_once
        self._waiting: deque[ItemRun] = deque()
        self._open: set[ItemRun] = set()
        self._loads: list[ItemLoad] = []
        """Of the workers that are there."""
        self._first_starts = FirstStarts(self._wake)
        self._changed = asyncio.Event()
        self._gone: InfraError | None = None
        """Why no item is made any more."""

    async def make(
        self, item: JsonObject, body: bytes = b"", *, on_progress: Callable[[str], None] = lambda _: None
    ) -> MadeItem:
        """Have an item made by whichever worker is free first."""
        if self._gone is not None:
            raise self._gone
        run = ItemRun(ItemJob(item, body), on_progress)
        self._open.add(run)
        self._put(run)
        try:
            return await run.made
        finally:
            self._open.discard(run)

    async def keep(self, opened: OpenPlaces) -> None:
        """Give workers items, until no worker is left."""
        try:
            self._gone = await employ_all(
                opened.places,
                opened.later,
                self._employ,
                first_starts=self._first_starts,
                max_restarts=self._spread.max_restarts,
                first_wait_s=self._spread.restart_wait_s,
            )
        except InfraError as error:
            self._gone = error
        for run in self._open:
            run.fail(self._gone)

    async def _employ(self, worker: LinkedWorker) -> str:
        worker.lost.add_done_callback(lambda _: self._wake())
        load = ItemLoad(worker)
        self._loads.append(load)
        try:
            async with asyncio.TaskGroup() as group:
                while (run := await self._take(load)) is not None:
                    group.create_task(self._run(run, load))
        finally:
            self._loads.remove(load)
            self._wake()
        return await worker.lost

    async def _run(self, run: ItemRun, load: ItemLoad) -> None:
        run.where = load.worker.link.where
        try:
            await load.worker.run(run.job, run)
        except WorkerLostError as error:
            self._lose(run, error)
        except Exception as error:  # noqa: BLE001 - whoever waits for it hears of it
            run.fail(BugError(f"worker: {type(error).__name__}: {error}", kind=type(error).__name__))
        load.n_running -= 1
        self._wake()

    async def _take(self, load: ItemLoad) -> ItemRun | None:
        """The next item for a worker, which then has it in flight. None: it is lost."""
        while not load.worker.lost.done():
            while self._waiting and self._has_room(load):
                run = self._waiting.popleft()
                if not run.made.done():  # nobody waits for it where that was cancelled
                    load.n_running += 1
                    return run
            await self._changed.wait()
        return None

    def _has_room(self, load: ItemLoad) -> bool:
        return has_room(load, self._loads, len(self._first_starts), self._at_once or len(self._loads))

    def _lose(self, run: ItemRun, error: WorkerLostError) -> None:
        run.n_lost += 1
        if run.n_lost < self._spread.attempts:
            self._put(run)
            return
        run.fail(WorkerLostError(f"{run.n_lost} workers were lost with it; the last {error.message}"))

    def _put(self, run: ItemRun) -> None:
        self._waiting.append(run)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


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
        workers = ItemWorkers(spread, at_once)
        keeper = asyncio.create_task(workers.keep(opened))
        try:
            yield workers
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
