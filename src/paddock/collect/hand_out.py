"""The hand-out: gives each worker members to run while it has room, until all members have ended.

Order   rows as they stand in the files, each read when a worker has room for it; what a lost worker gives back first.
Groups  members that wait for one another go to one worker, and to it before any other row's.
Loss    of a worker costs the attempts that it had: each is a failed one (`worker_lost`), and its member is given out
        again while it has attempts left. The worker is replaced, later each time, up to a number of times.
Errors  InfraError `workers_lost` when no worker is left; what the disk refuses (OSError).
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress

from paddock.collect.attempts import NoVerdict, failed_attempt
from paddock.collect.jobs import MemberJob
from paddock.collect.journal import Journal
from paddock.collect.plan import Plan
from paddock.collect.restarts import employ_all
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.collect.shares import FirstStarts, has_room
from paddock.collect.workers import MemberWorker, WorkerLostError, WorkerPlace
from paddock.server.settings import serve_settings


class MemberRun:
    """One member with a worker. It is what stores the member's events, and knows from them where the member stands."""

    def __init__(self, job: MemberJob, journal: Journal) -> None:
        self.job = job
        """The member as it would have to be run from here on."""
        self.result: RolloutResult | None = None
        """How it ended; None: it has not."""
        self._journal = journal

    async def rollout(self, result: RolloutResult, line: bytes) -> RolloutResult:
        self.result = await self._journal.rollout(result, line)
        return self.result

    async def failure(self, failed: FailedAttempt) -> None:
        await self._journal.failure(failed)
        job = self.job
        self.job = job._replace(attempt=job.attempt + 1, made=job.made + 1, doubts=job.doubts + failed.doubtful)
        if failed.final:
            self.result = failed.result()


class WorkerLoad:
    """What a worker has in flight."""

    def __init__(self, worker: MemberWorker) -> None:
        self.worker = worker
        self.own: deque[MemberJob] = deque()
        """What is left of its last batch."""
        self.n_running = 0
        self.unfinished: list[MemberRun] = []
        """What it was running when it was lost."""

    @property
    def slots(self) -> int:
        return self.worker.slots


class JobQueue:
    """The members that are left, in batches that go to one worker each."""

    def __init__(self, batches: Iterator[Sequence[MemberJob]], concurrency: int) -> None:
        self.loads: list[WorkerLoad] = []
        """Of the workers that are there; they share `concurrency` with those that start."""
        self.first_starts = FirstStarts(self.wake)
        self._concurrency = concurrency
        self.finished = asyncio.Event()
        """Set when every member has ended."""
        self._batches = batches
        self._returned: deque[Sequence[MemberJob]] = deque()
        self._n_open = 0
        """Members that were drawn and have not ended."""
        self._changed = asyncio.Event()

    async def take(self, load: WorkerLoad) -> MemberJob | None:
        """The next member for a worker, which then has it in flight. None: it gets no more."""
        while not self.finished.is_set() and not load.worker.lost.done():
            if has_room(load, self.loads, len(self.first_starts), self._concurrency):
                if load.own or self._draw(load.own):
                    load.n_running += 1
                    return load.own.popleft()
                if self._n_open == 0:
                    self.finished.set()
                    self.wake()
                    return None
            # It has no room; or whatever is in flight elsewhere may come back.
            await self._changed.wait()
        return None

    def ended(self) -> None:
        """One member has ended."""
        self._n_open -= 1
        if self._n_open == 0:
            self.wake()

    def give_back(self, batches: Iterable[Sequence[MemberJob]]) -> None:
        """Have other workers run these."""
        for batch in batches:
            self._returned.append(batch)
            self._n_open -= len(batch)
        self.wake()

    def wake(self) -> None:
        """Have those who wait look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _draw(self, own: deque[MemberJob]) -> bool:
        batch = self._returned.popleft() if self._returned else next(self._batches, ())
        own += batch
        self._n_open += len(batch)
        return bool(batch)


class HandOut:
    """The hand-out of one collection."""

    def __init__(self, plan: Plan, journal: Journal, batches: Iterator[Sequence[MemberJob]]) -> None:
        self._plan = plan
        self._journal = journal
        self._queue = JobQueue(batches, plan.settings.concurrency)
        self._serving = serve_settings(plan.config)

    async def run(self, places: Sequence[WorkerPlace], later: AsyncIterator[WorkerPlace] | None = None) -> None:
        """Have the workers run every member that is left. `later`: places that come later. Cancelled: what they run
        is cancelled."""
        serving = self._serving
        finished = asyncio.create_task(self._queue.finished.wait())
        employed = asyncio.create_task(
            employ_all(
                places,
                later,
                self._employ,
                first_starts=self._queue.first_starts,
                max_restarts=serving.max_restarts,
                first_wait_s=serving.restart_wait_s,
            )
        )
        try:
            await asyncio.wait({finished, employed}, return_when=asyncio.FIRST_COMPLETED)
            if not finished.done():
                raise employed.result()
        finally:
            for task in (finished, employed):
                task.cancel()
            await asyncio.gather(finished, employed, return_exceptions=True)

    async def _employ(self, worker: MemberWorker) -> str:
        """Give a worker members until it is lost; returns why. Where all have ended, this waits to be cancelled."""
        worker.lost.add_done_callback(lambda _: self._queue.wake())
        load = WorkerLoad(worker)
        self._queue.loads.append(load)
        try:
            async with asyncio.TaskGroup() as group:
                while (job := await self._queue.take(load)) is not None:
                    group.create_task(self._run(job, load))
                why = await worker.lost
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            self._queue.loads.remove(load)
        await asyncio.gather(*(self._charge(run, why) for run in load.unfinished))
        self._give_back([*load.own, *(run.job for run in load.unfinished if not self._settle(run))])
        return why

    async def _run(self, job: MemberJob, load: WorkerLoad) -> None:
        run = MemberRun(job, self._journal)
        with suppress(WorkerLostError):
            await load.worker.run(job, run)
        if not self._settle(run):
            load.unfinished.append(run)
        load.n_running -= 1
        self._queue.wake()

    def _settle(self, run: MemberRun) -> bool:
        """Count the member as ended; False: it has not."""
        if run.result is None:
            return False
        self._journal.ended(run.result, run.job.group_size)
        self._queue.ended()
        return True

    async def _charge(self, run: MemberRun, why: str) -> None:
        """Count an attempt that a lost worker had in flight as failed."""
        job = run.job
        lost = NoVerdict("infra", WorkerLostError(f"its worker {why}").failure())
        final = job.made + 1 >= self._plan.settings.max_attempts
        group = self._plan.group(job.line)
        await run.failure(failed_attempt(group, job.member, job.attempt, lost, final=final))

    def _give_back(self, jobs: Sequence[MemberJob]) -> None:
        by_row: dict[int, list[MemberJob]] = {}
        for job in jobs:
            by_row.setdefault(job.line.index, []).append(job)
        for index, members in by_row.items():
            size = members[0].group_size
            missing = self._journal.missing(index, size)
            ended = [member for member in range(size) if member not in missing]
            self._queue.give_back(batches_of(members, ended, together=self._plan.is_group_wise))


def batches_of(members: Sequence[MemberJob], ended: Sequence[int], *, together: bool) -> Iterator[Sequence[MemberJob]]:
    """Members of one group as batches. `together`: they wait for one another, but not for those that have ended."""
    if together and members:
        first, *others = members
        yield [first._replace(ended=tuple(ended)), *(member._replace(ended=()) for member in others)]
        return
    yield from ([member] for member in members)
