"""One collection into one folder: opened, resumed, run, summarised.

Law     nothing that has ended is run again or lost: at any kill at most the rollouts in flight are. A folder holds one
        run; resuming another one into it is refused, in words. One failing rollout stops nothing else.
        However `collect` ends, by cancellation too, the journals are closed and `summary.json` says what they say.
Errors  ConfigError before anything starts; InfraError (kind `disk`) when the folder can't be written any more.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Literal, NamedTuple

import orjson

from paddock.collect.attempts import Attempts, RolloutSetup
from paddock.collect.breaker import Breaker
from paddock.collect.endings import MemberKey
from paddock.collect.folder import CONFIG, INDEX, RESULTS, RUN, SUMMARY, has_run, locked, write_json
from paddock.collect.identity import (
    RunIdentity,
    Who,
    differences,
    identifying_tree,
    placeless,
    public_tree,
    read_identity,
)
from paddock.collect.in_flight import InFlight
from paddock.collect.journal import Groups, Journal
from paddock.collect.plan import Plan, PlannedGroup
from paddock.collect.recovery import Recovered, recover
from paddock.collect.tally import Board, Pace
from paddock.config.reading import dump, parse
from paddock.errors import ConfigError, InfraError
from paddock.http import Peer
from paddock.types import JsonObject
from paddock.whole_file import write_whole

_log = logging.getLogger("paddock.collect")
How = Literal["finished", "deadline", "servers_failed", "one_cause", "interrupted"]


class Collected(NamedTuple):
    """What a collection came to."""

    how: How
    summary: list[JsonObject]
    n_rollouts: int
    """Rollouts that the run has when it is complete."""
    why: str | None = None
    """What the servers failed of, or every attempt, when they did."""

    @property
    def n_verdicts(self) -> int:
        return sum(run["outcomes"].get(kind, 0) for run in self.summary for kind in ("completed", "truncated"))


class _Work(NamedTuple):
    group: PlannedGroup
    member: int
    failed_before: int
    doubts: int
    ended: list[int]
    """Members of the group that ended before this command; told of with the first that is missing."""


class Run:
    """A folder opened for one plan; its lock is held."""

    def __init__(self, plan: Plan, folder: Path, found: Recovered) -> None:
        self.plan = plan
        self.folder = folder
        self.board = Board()
        self.begun = False
        """True once the journals are open."""
        self.in_flight = InFlight()
        self._found = found
        self._kept = list(found.kept(frozenset(plan.settings.retry)))
        self.board.add_all(self._kept)

    async def collect(
        self,
        peers: Mapping[str, Peer],
        *,
        prompter: RolloutSetup | None = None,
        failed: asyncio.Event | None = None,
        watcher: AbstractAsyncContextManager[object] | None = None,
    ) -> Collected:
        """Run what is missing. `failed` is set when the servers can't go on; `watcher` is open meanwhile."""
        try:
            return await self._collect(peers, prompter, failed, watcher or nullcontext())
        except OSError as error:
            raise InfraError(f"{self.folder}: can't be written: {error}", kind="disk", retryable=False) from error

    async def _collect(
        self,
        peers: Mapping[str, Peer],
        prompter: RolloutSetup | None,
        failed: asyncio.Event | None,
        watcher: AbstractAsyncContextManager[object],
    ) -> Collected:
        self.begun = True
        (self.folder / RESULTS).write_bytes(b"")
        breaker = Breaker(self.plan.settings.failures_limit)
        journal = Journal(self.folder, self.board, Groups(self._kept), breaker)
        attempts = Attempts(peers, journal, self.plan.settings, prompter, self.in_flight)
        before, started = stored_pace(self.folder), time.monotonic()
        try:
            async with watcher:
                how = await self._drive(journal, attempts, failed)
        finally:
            await journal.close()
            pace = before.plus(time.monotonic() - started, journal.n_ended)
            summary = self._summary(pace)
        return Collected(how, summary, self.plan.n_rollouts, breaker.why if how == "one_cause" else None)

    def _summary(self, pace: Pace) -> list[JsonObject]:
        try:
            return summarise(self.folder, self.plan.identity.agents, pace)
        except ConfigError as error:
            # Somebody else was at the folder: what was collected can't be read back.
            raise InfraError(error.message, kind="disk", retryable=False) from error

    async def _drive(self, journal: Journal, attempts: Attempts, failed: asyncio.Event | None) -> How:
        work = self._work(journal)
        count = min(self.plan.settings.concurrency, self.plan.n_rollouts)
        workers = [asyncio.create_task(_worker(work, journal, attempts)) for _ in range(count)]
        all_done = asyncio.create_task(_all_done(workers))
        watched: dict[How, asyncio.Task[bool]] = {"one_cause": asyncio.create_task(journal.breaker.open.wait())}
        if failed is not None:
            watched["servers_failed"] = asyncio.create_task(failed.wait())
        try:
            timeout_s = self.plan.settings.deadline_s
            waited = {all_done, *watched.values()}
            await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if all_done.done():
                all_done.result()
                return "finished"
            return next((how for how, task in watched.items() if task.done()), "deadline")
        finally:
            tasks = [all_done, *watched.values(), *workers]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _work(self, journal: Journal) -> Iterator[_Work]:
        for line in self.plan.lines():
            missing = journal.missing(line.index, line.source.repeats)
            if missing:
                group = self.plan.group(line)
                ended = [member for member in range(group.size) if member not in missing]
                for member in missing:
                    key = MemberKey(line.index, member)
                    failed_before, doubts = self._found.failed_attempts.get(key, 0), self._found.doubts.get(key, 0)
                    yield _Work(group, member, failed_before, doubts, ended)
                    ended = []


async def _worker(work: Iterator[_Work], journal: Journal, attempts: Attempts) -> None:
    # All workers draw from one iterator: a row is read when a worker is free for it.
    for item in work:
        await attempts.withdraw(item.group, item.ended)
        ended = await attempts.run_member(item.group, item.member, item.failed_before, item.doubts)
        journal.ended(ended.ending, item.group.size)


async def _all_done(workers: list[asyncio.Task[None]]) -> None:
    done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
    for worker in done:
        worker.result()


@contextmanager
def open_run(plan: Plan, folder: Path, *, resume: bool = False) -> Iterator[Run]:
    """The folder, locked, with what it holds; a new one is given its identity.

    When a mistake is found before the new run has begun, the folder is free again for the command without it.
    """
    with locked(folder):
        new = not has_run(folder)
        try:
            run = _opened(plan, folder, resume=resume)
        except OSError as error:
            raise ConfigError(f"{folder}: can't be used: {error}", kind="folder_unusable") from error
        try:
            yield run
        except ConfigError:
            if new and not run.begun:
                for name in (CONFIG, RUN, INDEX):
                    (folder / name).unlink(missing_ok=True)
            raise


def _opened(plan: Plan, folder: Path, *, resume: bool) -> Run:
    if not has_run(folder):
        write_whole(folder / CONFIG, dump(public_tree(plan.config)).encode())
        write_json(folder / RUN, plan.identity.model_dump())
        return Run(plan, folder, recover(folder))
    if not resume:
        raise ConfigError(
            f"{folder} holds a run already: go on with it (--resume) or take another folder (--out)",
            kind="folder_taken",
        )
    before = _same_run(plan, folder)
    found = recover(folder)
    for repair in found.repairs:
        _log.warning("%s: %s", folder, repair)
    identity = plan.identity.model_copy(update={"run_id": before.run_id})
    return Run(plan._replace(identity=identity), folder, found)


def summarise(folder: Path, agents: Mapping[str, Who], pace: Pace) -> list[JsonObject]:
    """Write `summary.json` from the journals; `pace` is that of all commands."""
    board = Board()
    board.add_all(recover(folder).endings())
    summary = board.summary(agents, pace)
    write_json(folder / SUMMARY, summary)
    return summary


def stored_pace(folder: Path) -> Pace:
    """That of all commands so far which could say it at their end: one that was killed could not."""
    try:
        paces = [(float(run["seconds"]["wall"]), float(run["rollouts_per_s"])) for run in read_summary(folder)]
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return Pace(0.0, 0)  # there is none yet, or none that can be read: the rollouts are all there
    wall_s, per_s = max(paces, default=(0.0, 0.0))
    return Pace(wall_s, round(wall_s * per_s))


def read_summary(folder: Path) -> list[JsonObject]:
    summary: list[JsonObject] = orjson.loads((folder / SUMMARY).read_bytes())
    return summary


def _same_run(plan: Plan, folder: Path) -> RunIdentity:
    before = read_identity(folder)
    stored = folder / CONFIG
    old = placeless(parse(stored.read_text(), str(stored)).tree) if stored.exists() else {}
    found = differences(before, plan.identity, (old, identifying_tree(plan.config)))
    if found:
        raise ConfigError(f"{folder} holds another run: {'; '.join(found)}", kind="run_differs")
    return before
