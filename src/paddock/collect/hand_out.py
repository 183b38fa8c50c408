"""The hand-out: gives each worker members to run while it has room, until all members have ended.

Order   rows as they stand in the files, each read when a worker has room for it; what a lost worker gives back first.
Groups  members that wait for one another go to one worker, and to it before any other row's.
Loss    of a worker costs the attempts that it had: each is a failed one (`worker_lost`), and its member is given out
        again while it has attempts left. The worker is replaced, later each time, up to a number of times.
Errors  InfraError `workers_lost` when no worker is left; what the disk refuses (OSError).
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from paddock.collect.attempts import NoVerdict, failed_attempt
from paddock.collect.jobs import MemberJob
from paddock.collect.journal import Journal
from paddock.collect.keeper import WORKERS_LOST, keep_worker
from paddock.collect.plan import Plan
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.collect.workers import MemberWorker, WorkerLostError, WorkerPlace
from paddock.errors import InfraError
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


class JobQueue:
    """The members that are left, in batches that go to one worker each."""

    def __init__(self, batches: Iterator[Sequence[MemberJob]]) -> None:
        self.finished = asyncio.Event()
        """Set when every member has ended."""
        self._batches = batches
        self._returned: deque[Sequence[MemberJob]] = deque()
        self._n_open = 0
        """Members that were drawn and have not ended."""
        self._changed = asyncio.Event()

    async def take(self, own: deque[MemberJob], worker: MemberWorker) -> MemberJob | None:
        """The next member for a worker. `own`: what is left of its last batch. None: it gets no more."""
        while not self.finished.is_set() and not worker.lost.done():
            if own or self._draw(own):
                return own.popleft()
            if self._n_open == 0:
                self.finished.set()
                self.wake()
                return None
            # Whatever is in flight elsewhere may come back.
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
        self._queue = JobQueue(batches)
        self._serving = serve_settings(plan.config)

    async def run(self, places: Sequence[WorkerPlace]) -> None:
        """Have the workers run every member that is left. Cancelled: what they run is cancelled."""
        limit, wait_s = self._serving.max_restarts, self._serving.restart_wait_s
        keepers = [
            asyncio.create_task(keep_worker(place.worker, self._employ, max_restarts=limit, first_wait_s=wait_s))
            for place in places
        ]
        all_gone = asyncio.gather(*keepers)
        finished = asyncio.create_task(self._queue.finished.wait())
        try:
            waited: set[asyncio.Future[Any]] = {finished, all_gone}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not finished.done():
                whys = "; ".join(dict.fromkeys(all_gone.result()))
                raise InfraError(f"no worker is left: the last {whys}", kind=WORKERS_LOST, retryable=False)
        finally:
            for task in (finished, *keepers):
                task.cancel()
            await asyncio.gather(finished, all_gone, *keepers, return_exceptions=True)

    async def _employ(self, worker: MemberWorker) -> str:
        """Give a worker members until it is lost; returns why. Where all have ended, this waits to be cancelled."""
        worker.lost.add_done_callback(lambda _: self._queue.wake())
        own: deque[MemberJob] = deque()
        count = min(worker.slots, self._plan.n_rollouts)
        hands = [asyncio.create_task(self._hand(worker, own)) for _ in range(count)]
        try:
            runs = [run for run in await asyncio.gather(*hands) if run is not None]
        finally:
            for hand in hands:
                hand.cancel()
            await asyncio.gather(*hands, return_exceptions=True)
        why = await worker.lost
        await asyncio.gather(*(self._charge(run, why) for run in runs))
        self._give_back([*own, *(run.job for run in runs if not self._settle(run))])
        return why

    async def _hand(self, worker: MemberWorker, own: deque[MemberJob]) -> MemberRun | None:
        """Fill one slot of a worker; returns what it was running when it was lost."""
        while (job := await self._queue.take(own, worker)) is not None:
            run = MemberRun(job, self._journal)
            with suppress(WorkerLostError):
                await worker.run(job, run)
            if not self._settle(run):
                return run
        return None

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
