"""Independent items, made by worker processes: on this machine, or beside an actor on each node of a Ray cluster.

    work = ItemWork("my_package.my_work:open_work", given={"runs": 3})
    async with open_item_workers(work, WorkerSpread(workers=4, cluster="auto"), at_once=8) as workers:
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
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from paddock.collect.jobs import WorkerMessage, WorkerSetup
from paddock.collect.ray_worker import connect
from paddock.collect.restarts import WORKERS_LOST, employ_with_restarts
from paddock.collect.worker_process import LinkedPlace, LinkedWorker, OpenLink, ProcessLink, close_all, start_all
from paddock.collect.workers import WorkerLostError
from paddock.errors import BugError, InfraError, PaddockError, from_wire
from paddock.types import JsonObject

OPENS = "paddock.collect.item_work:open_items"


class WorkerSpread(BaseModel):
    """How many workers make the items, where they are, and what the loss of one may cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workers: int = Field(default=1, ge=1)
    cluster: str | None = None
    """As `eval.cluster`; None: this machine."""
    attempts: int = Field(default=3, ge=1)
    """At one item, the first included, while workers are lost with it."""
    max_restarts: int = Field(default=20, ge=0)
    """Of each worker."""
    restart_wait_s: float = Field(default=0.5, ge=0)
    """Before the first restart; then twice as long each time."""
    start_timeout_s: float = Field(default=60.0, gt=0)
    stop_timeout_s: float = Field(default=10.0, gt=0)
    silence_s: float = Field(default=300.0, gt=0)
    """Seconds without a sign of a worker, which gives one each second; then it is replaced."""

    @property
    def is_here(self) -> bool:
        """True: this process alone does the work."""
        return self.workers == 1 and self.cluster is None

    def slots(self, at_once: int) -> list[int]:
        """How many items each worker has at a time."""
        n_workers = min(self.workers, at_once)
        share, more = divmod(at_once, n_workers)
        return [share + (nth < more) for nth in range(n_workers)]


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


class ItemWorkers:
    """Workers that make items; see `open_item_workers`."""

    def __init__(self, spread: WorkerSpread) -> None:
        self._spread = spread
        self._waiting: deque[ItemRun] = deque()
        self._open: set[ItemRun] = set()
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

    async def keep(self, places: Sequence[LinkedPlace]) -> None:
        """Give workers items, until no worker is left."""
        limit, wait_s = self._spread.max_restarts, self._spread.restart_wait_s
        async with asyncio.TaskGroup() as group:
            keepers = [
                group.create_task(
                    employ_with_restarts(place.worker, self._employ, max_restarts=limit, first_wait_s=wait_s)
                )
                for place in places
            ]
        whys = "; ".join(dict.fromkeys(keeper.result() for keeper in keepers))
        self._gone = InfraError(f"no worker is left: the last {whys}", kind=WORKERS_LOST, retryable=False)
        for run in self._open:
            run.fail(self._gone)

    async def _employ(self, worker: LinkedWorker) -> str:
        worker.lost.add_done_callback(lambda _: self._wake())
        async with asyncio.TaskGroup() as hands:
            for _ in range(worker.slots):
                hands.create_task(self._hand(worker))
        return await worker.lost

    async def _hand(self, worker: LinkedWorker) -> None:
        """Fill one slot of a worker until it is lost."""
        while (run := await self._take(worker)) is not None:
            run.where = worker.link.where
            try:
                await worker.run(run.job, run)
            except WorkerLostError as error:
                self._lose(run, error)
            except Exception as error:  # noqa: BLE001 - whoever waits for it hears of it
                run.fail(BugError(f"worker: {type(error).__name__}: {error}", kind=type(error).__name__))

    async def _take(self, worker: LinkedWorker) -> ItemRun | None:
        while not worker.lost.done():
            while self._waiting:
                run = self._waiting.popleft()
                if not run.made.done():  # nobody waits for it where that was cancelled
                    return run
            await self._changed.wait()
        return None

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


class WorkerNodes(NamedTuple):
    """What workers are started on."""

    open_link: OpenLink
    host: str | None = None
    """The address at which workers of other machines reach this one; None: there are none."""


@contextmanager
def connect_nodes(spread: WorkerSpread) -> Iterator[WorkerNodes]:
    if spread.cluster is None:
        yield WorkerNodes(ProcessLink.open)
        return
    with connect(spread.cluster) as (host, open_link):
        yield WorkerNodes(open_link, host)


@asynccontextmanager
async def open_item_workers(
    work: ItemWork, spread: WorkerSpread, *, at_once: int, nodes: WorkerNodes | None = None
) -> AsyncIterator[ItemWorkers]:
    """Start the workers, which share `at_once`. `nodes`: what is connected to already."""
    async with AsyncExitStack() as stack:
        open_link = (nodes or stack.enter_context(connect_nodes(spread))).open_link
        places = [
            LinkedPlace(f"worker-{nth}", _setup(work, spread, slots), open_link, start_timeout_s=spread.start_timeout_s)
            for nth, slots in enumerate(spread.slots(at_once))
        ]
        stack.push_async_callback(close_all, places)
        await start_all(places)
        workers = ItemWorkers(spread)
        keeper = asyncio.create_task(workers.keep(places))
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
