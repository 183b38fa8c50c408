"""One collection into one folder: opens or resumes it, runs what is missing, writes the summary.

Law     nothing that has ended is run again or lost: at any kill at most the rollouts in flight are. A folder holds one
        run; resuming another one into it is refused, in words. One failing rollout stops nothing else.
        However `collect` ends, by cancellation too, the journals are closed and `summary.json` says what they say.
Errors  ConfigError before anything starts; InfraError (kind `disk`) when the folder can't be written any more.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Literal, NamedTuple

import orjson

from paddock.collect.folder import CONFIG, INDEX, RESULTS, RUN, SUMMARY, has_run, locked, write_json
from paddock.collect.hand_out import HandOut, batches_of
from paddock.collect.identity import (
    AgentIdentity,
    RunIdentity,
    differences,
    identifying_part,
    identifying_tree,
    public_tree,
    read_identity,
)
from paddock.collect.jobs import MemberJob
from paddock.collect.journal import Breaker, Groups, Journal
from paddock.collect.plan import Plan
from paddock.collect.recovery import StoredRun, recover
from paddock.collect.restarts import WORKERS_LOST
from paddock.collect.results import MemberKey
from paddock.collect.rows import RowFileLine
from paddock.collect.tally import OLD_SUMMARY_KEYS, Board, Pace
from paddock.collect.workers import Crew
from paddock.config.yaml_text import dump, parse
from paddock.errors import ConfigError, InfraError
from paddock.types import REWARDED, JsonObject
from paddock.whole_file import write_whole

_log = logging.getLogger("paddock.collect")
EndReason = Literal["finished", "deadline", "servers_failed", "one_cause", "interrupted"]


class CollectionResult(NamedTuple):
    """How a collection ended, and its summary."""

    how: EndReason
    summary: list[JsonObject]
    n_rollouts: int
    """Rollouts that the run has when it is complete."""
    why: str | None = None
    """Why the servers failed, or every attempt did; None: neither."""

    @property
    def n_verdicts(self) -> int:
        return sum(run["outcomes"].get(kind, 0) for run in self.summary for kind in REWARDED)


class _End(NamedTuple):
    how: EndReason
    why: str | None = None


class Run:
    """A folder opened for one plan; its lock is held."""

    def __init__(self, plan: Plan, folder: Path, stored: StoredRun) -> None:
        self.plan = plan
        self.folder = folder
        self.board = Board()
        self.started = False
        """True once the journals are open."""
        self._stored = stored
        self._final_results = list(stored.final_results(frozenset(plan.settings.retry)))
        self.board.add_all(self._final_results)

    async def collect(
        self, crew: Crew, *, watcher: AbstractAsyncContextManager[object] | None = None
    ) -> CollectionResult:
        """Run what is missing. `watcher`: entered while rollouts run."""
        try:
            return await self._collect(crew, watcher or nullcontext())
        except OSError as error:
            raise InfraError(f"{self.folder}: can't be written: {error}", kind="disk", retryable=False) from error

    async def _collect(self, crew: Crew, watcher: AbstractAsyncContextManager[object]) -> CollectionResult:
        self.started = True
        (self.folder / RESULTS).write_bytes(b"")
        breaker = Breaker(self.plan.settings.failures_limit)
        journal = Journal(self.folder, self.board, Groups(self._final_results), breaker)
        before, started = stored_pace(self.folder), time.monotonic()
        try:
            async with watcher:
                end = await self._drive(journal, crew)
        finally:
            await journal.close()
            pace = before.plus(time.monotonic() - started, journal.n_ended)
            summary = self._summary(pace)
        return CollectionResult(end.how, summary, self.plan.n_rollouts, end.why)

    def _summary(self, pace: Pace) -> list[JsonObject]:
        try:
            return summarise(self.folder, self.plan.identity.agents, pace)
        except ConfigError as error:
            # Somebody else changed the folder: what was collected can't be read back.
            raise InfraError(error.message, kind="disk", retryable=False) from error

    async def _drive(self, journal: Journal, crew: Crew) -> _End:
        hand_out = HandOut(self.plan, journal, self._batches(journal))
        all_done = asyncio.create_task(hand_out.run(crew.places, crew.later))
        broken = asyncio.create_task(journal.breaker.open.wait())
        failed = asyncio.create_task(crew.runtime.failed.wait() if crew.runtime else asyncio.Event().wait())
        try:
            timeout_s = self.plan.settings.deadline_s
            waited = {all_done, broken, failed}
            await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if all_done.done():
                return _end_of(all_done)
            if broken.done():
                return _End("one_cause", journal.breaker.why)
            if failed.done() and crew.runtime is not None:
                return _End("servers_failed", str(crew.runtime.failure))
            return _End("deadline")
        finally:
            tasks = [all_done, broken, failed]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _batches(self, journal: Journal) -> Iterator[Sequence[MemberJob]]:
        for line in self.plan.lines():
            size = line.source.repeats
            missing = journal.missing(line.index, size)
            ended = [member for member in range(size) if member not in missing]
            jobs = [self._job(MemberKey(line.index, member), line) for member in missing]
            yield from batches_of(jobs, ended, together=self.plan.is_group_wise)

    def _job(self, key: MemberKey, line: RowFileLine) -> MemberJob:
        attempt, doubts = self._stored.failed_attempts.get(key, 0), self._stored.doubts.get(key, 0)
        return MemberJob(line, key.member, attempt, doubts=doubts)


def _end_of(all_done: "asyncio.Task[None]") -> _End:
    try:
        all_done.result()
    except InfraError as error:
        if error.kind != WORKERS_LOST:
            raise
        return _End("servers_failed", str(error))
    return _End("finished")


@contextmanager
def open_run(plan: Plan, folder: Path, *, resume: bool = False) -> Iterator[Run]:
    """Open the folder of a run and hold its lock while the block runs; a new one is given its identity.

    A new folder is freed again when a ConfigError comes before the run has started.
    """
    with locked(folder):
        new = not has_run(folder)
        try:
            run = _open(plan, folder, resume=resume)
        except OSError as error:
            raise ConfigError(f"{folder}: can't be used: {error}", kind="folder_unusable") from error
        try:
            yield run
        except ConfigError:
            if new and not run.started:
                for name in (CONFIG, RUN, INDEX):
                    (folder / name).unlink(missing_ok=True)
            raise


def _open(plan: Plan, folder: Path, *, resume: bool) -> Run:
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
    stored = recover(folder)
    for repair in stored.repairs:
        _log.warning("%s: %s", folder, repair)
    identity = plan.identity.model_copy(update={"run_id": before.run_id})
    return Run(plan._replace(identity=identity), folder, stored)


def summarise(folder: Path, agents: Mapping[str, AgentIdentity], pace: Pace) -> list[JsonObject]:
    """Write `summary.json` from the journals; `pace` is that of all commands."""
    board = Board()
    board.add_all(recover(folder).results())
    summary = board.summary(agents, pace)
    write_json(folder / SUMMARY, summary)
    return summary


def stored_pace(folder: Path) -> Pace:
    """The pace over all earlier commands, without those that were killed."""
    try:
        paces = [(float(run["seconds"]["wall"]), float(run["rollouts_per_s"])) for run in read_summary(folder)]
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return Pace(0.0, 0)  # there is none yet, or none that can be read: the rollouts are all there
    wall_s, per_s = max(paces, default=(0.0, 0.0))
    return Pace(wall_s, round(wall_s * per_s))


def read_summary(folder: Path) -> list[JsonObject]:
    summary: list[JsonObject] = orjson.loads((folder / SUMMARY).read_bytes())
    return [{OLD_SUMMARY_KEYS.get(key, key): value for key, value in run.items()} for run in summary]


def _same_run(plan: Plan, folder: Path) -> RunIdentity:
    before = read_identity(folder)
    stored = folder / CONFIG
    old = identifying_part(parse(stored.read_text(), str(stored)).tree) if stored.exists() else {}
    differing = differences(before, plan.identity, (old, identifying_tree(plan.config)))
    if differing:
        raise ConfigError(f"{folder} holds another run: {'; '.join(differing)}", kind="run_differs")
    return before
