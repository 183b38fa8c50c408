"""One group while somebody waits for it here: its questions are asked, and at the end everybody is told.

Law     what to do next follows from the group's state on disk and the answers so far, each time anew. A group settles
        when no member is missing (or it was closed without those) and every comparison that the plan wants was
        answered or has failed: every answer counts. What was told is never changed.
Ends    with its last waiter: what is being asked is given up, and its claims are free for others.
Errors  VerifierError, to whom it concerns: `superseded`, `group_incomplete`, or that of a failed comparison.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from paddock.errors import PaddockError, VerifierError, boundary
from paddock.resources_servers.genrm.config import GenrmConfig
from paddock.resources_servers.genrm.groups import progress
from paddock.resources_servers.genrm.groups.records import (
    Answer,
    AnswerKey,
    Failed,
    Judgement,
    Placed,
    Submission,
    incomplete,
    superseded,
)
from paddock.resources_servers.genrm.groups.store import GroupState, GroupStore
from paddock.resources_servers.genrm.judging.asking import Judges, Subject
from paddock.resources_servers.genrm.verdicts import Settled

LOOK_AGAIN_S = 0.5
"""Between looks whether a server that is asking still lives."""


class Desk(NamedTuple):
    """What all groups of a server work with."""

    config: GenrmConfig
    store: GroupStore
    judges: Judges


class _Waiter(NamedTuple):
    placed: Placed
    told: asyncio.Future[Settled]


class Group:
    def __init__(self, name: str, subject: Subject, desk: Desk) -> None:
        self.name = name
        self._subject = subject
        self._config, self._store, self._judges = desk
        self._waiters: list[_Waiter] = []
        self._wake = asyncio.Event()
        self._state: GroupState | None = None
        self._settled: Settled | None = None
        self._asking: dict[AnswerKey, asyncio.Task[None]] = {}
        self._answered: dict[AnswerKey, Answer] = {}
        """Not on disk yet."""
        self._texts: dict[str, str] = {}
        """Of members, by digest; another server's are read from the disk."""
        self._look_at = 0.0

    @property
    def is_awaited(self) -> bool:
        return bool(self._waiters)

    async def judged(self, placed: Placed, submission: Submission) -> Settled:
        """The judgement that `placed` is part of."""
        self._texts[submission.text_digest] = submission.candidate.text
        waiter = _Waiter(placed, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        self.refresh()
        try:
            return await waiter.told
        finally:
            self._waiters.remove(waiter)

    def refresh(self) -> None:
        """The state on disk may have changed."""
        self._state = None
        self._wake.set()

    def dismiss(self, error: VerifierError) -> None:
        """Tell all that wait."""
        for waiter in self._waiters:
            _fail(waiter, VerifierError(error.message, kind=error.kind))

    async def run(self) -> None:
        """Until cancelled; a failure is told to all that wait."""
        try:
            with boundary(VerifierError, f"group {self.name}"):
                due: float | None = None
                while True:
                    self._wake.clear()
                    if not self._more_will_come():
                        due_s = self._step()
                        due = None if due_s is None else asyncio.get_running_loop().time() + due_s
                    try:
                        async with asyncio.timeout_at(due):
                            await self._wake.wait()
                    except TimeoutError:
                        continue
        except PaddockError as error:
            self.dismiss(VerifierError(error.message, kind=error.kind))

    def end(self) -> None:
        """Give up what is being asked."""
        self._keep_answers()
        self._give_up(list(self._asking))

    def _more_will_come(self) -> bool:
        """Whether some of what is being asked was answered and nothing else happened: then there is nothing to decide,
        for a plan goes on when all that it wanted is there."""
        waits = self._state is not None and self._state.judgement is None
        answered = len(self._answered)
        self._keep_answers()
        return waits and answered > 0 and bool(self._asking)

    def _step(self) -> float | None:
        """All that can be done now; seconds until something may have to be done without a cause of ours."""
        self._keep_answers()
        while True:
            state = self._state = self._state or self._store.read(self.name)
            if state is None:
                for waiter in self._waiters:
                    _fail(waiter, incomplete(0, withdrawn=0))
                return None
            self._turn_away(state)
            if state.judgement is not None:
                return self._ask(state, self._tell(state, state.judgement))
            planned = progress.open_questions(self._config, state)
            if planned.is_finished:
                self._settle(state, planned.judgement(self.name))
            elif planned.complete or (left_s := self._left_s(state)) is None:
                return self._ask(state, planned.missing)
            elif left_s > 0:
                return _sooner(left_s, self._ask(state, planned.missing))
            else:
                self._time_is_up(state)
            self._state = None

    def _left_s(self, state: GroupState) -> float | None:
        """Seconds that further members may take; None: any number."""
        if self._config.incomplete_group == "wait" or state.opened_at is None:
            return None
        if len(state.present) + len(state.withdrawn) == state.size:
            return 0.0
        return state.opened_at + self._config.group_timeout_s - self._store.clock()

    def _time_is_up(self, state: GroupState) -> None:
        if self._config.incomplete_group == "score_partial" and len(state.present) > 1:
            self._store.shut(self.name, state.revision)
        else:
            self._store.give_up(self.name, state.revision)

    def _settle(self, state: GroupState, judgement: Judgement) -> None:
        """A group of which nobody can be scored begins anew with who comes again."""
        if len(judgement.masked) < len(judgement.members):
            self._store.settle(self.name, state.revision, judgement)
        elif self._store.reset(self.name, state.revision):
            for waiter in self._waiters:
                _fail(waiter, judgement.masked[waiter.placed.member].error())

    def _turn_away(self, state: GroupState) -> None:
        """Those whose response counts no more."""
        for waiter in self._waiters:
            placed = waiter.placed
            member = state.members.get(placed.member)
            if placed.late:
                continue
            if member is not None and (member.attempt, member.digest) != (placed.attempt, placed.digest):
                _fail(waiter, superseded())
            elif member is None or member.presence != "here":
                _fail(waiter, incomplete(state.size, withdrawn=len(state.withdrawn)))

    def _tell(self, state: GroupState, judgement: Judgement) -> dict[AnswerKey, None]:
        """Tell all that can be told; what late members still have to be asked."""
        if self._settled is None:
            self._settled = Settled(judgement, self._config)
        missing: dict[AnswerKey, None] = {}
        for waiter in self._waiters:
            if waiter.told.done():
                continue
            if waiter.placed.late:
                missing.update(self._tell_late(waiter, state, judgement))
            elif waiter.placed.member in judgement.masked:
                _fail(waiter, judgement.masked[waiter.placed.member].error())
            else:
                waiter.told.set_result(self._settled)
        return missing

    def _tell_late(self, waiter: _Waiter, state: GroupState, judgement: Judgement) -> dict[AnswerKey, None]:
        placed = waiter.placed
        found = self._store.late_member(placed)
        if found is None:
            _fail(waiter, superseded())
            return {}
        member, own = found
        if own is None:
            planned = progress.questions_of_late(self._config, state, judgement, placed.member, member)
            if not planned.is_finished:
                return planned.missing
            own = planned.judgement_of_late(judgement, placed.member, member)
            if placed.member in own.masked:
                _fail(waiter, own.masked[placed.member].error())
                return {}
            self._store.tell_late(placed, own)
        waiter.told.set_result(Settled(own, self._config))
        return {}

    def _ask(self, state: GroupState, missing: Mapping[AnswerKey, None]) -> float | None:
        """Ask what nobody asks, and no longer what is not wanted; seconds until the next look at other servers."""
        self._give_up([key for key in self._asking if key not in missing])
        if not any(not waiter.told.done() for waiter in self._waiters):
            return None
        others = [key for key in missing if key not in self._asking and key in state.claimed]
        wanted = [key for key in missing if key not in self._asking and key not in state.claimed]
        now = asyncio.get_running_loop().time()
        if others and now >= self._look_at:
            self._look_at = now + LOOK_AGAIN_S
            wanted += others
        mine = self._store.claim(self.name, wanted) if wanted else []
        for key in wanted:
            state.claimed[key] = ""
        for key in mine:
            self._asking[key] = asyncio.get_running_loop().create_task(self._compare(key))
        return LOOK_AGAIN_S if len(self._asking) < len(missing) else None

    async def _compare(self, key: AnswerKey) -> None:
        try:
            with boundary(VerifierError, "comparison"):
                first, second = (self._text(digest) for digest in key[:2])
                answer: Answer = await self._judges.compare(self._subject, first, second, key.judge_idx)
        except PaddockError as error:
            answer = Failed(kind=error.kind, message=error.message, retryable=error.retryable)
        self._answered[key] = answer
        self._wake.set()

    def _text(self, digest: str) -> str:
        if digest not in self._texts:
            self._texts[digest] = self._store.text(self.name, digest)
        return self._texts[digest]

    def _keep_answers(self) -> None:
        if not self._answered:
            return
        answered, self._answered = self._answered, {}
        self._store.answer(self.name, answered)
        for key in answered:
            self._asking.pop(key, None)
        if self._state is not None:
            self._state.answers.update(answered)

    def _give_up(self, keys: Iterable[AnswerKey]) -> None:
        given_up = list(keys)
        for key in given_up:
            self._asking.pop(key).cancel()
        if given_up:
            self._store.release(self.name, given_up)
            if self._state is not None:
                for key in given_up:
                    self._state.claimed.pop(key, None)


def _fail(waiter: _Waiter, error: VerifierError) -> None:
    if not waiter.told.done():
        waiter.told.set_exception(error)


def _sooner(one_s: float, other_s: float | None) -> float:
    return one_s if other_s is None else min(one_s, other_s)
