"""One group while a request waits for it here: its questions are asked, and at the end every waiter gets its result.

Law     what to do next follows from the group's state on disk and the answers so far, each time anew. A group settles
        when no member is missing (or it was closed without those) and every comparison that the plan wants was
        answered or has failed: every answer counts. A result that was given is never changed.
Ends    with its last waiter: what is being asked is given up, and its claims are free for others.
Errors  VerifierError, to whom it concerns: `superseded`, `group_incomplete`, or that of a failed comparison.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from paddock.errors import PaddockError, VerifierError, boundary
from paddock.resources_servers.genrm.config import GenrmConfig
from paddock.resources_servers.genrm.groups.progress import open_questions, questions_of_late
from paddock.resources_servers.genrm.groups.records import (
    Answer,
    AnswerKey,
    FailedComparison,
    GroupJudgement,
    Membership,
    Submission,
    incomplete,
    superseded,
)
from paddock.resources_servers.genrm.groups.store import GroupState, GroupStore
from paddock.resources_servers.genrm.judging.judges import GroupPrompt, Judges
from paddock.resources_servers.genrm.verdicts import GroupResult

RECHECK_S = 0.5
"""Between looks whether a server that is asking still lives."""


class GroupContext(NamedTuple):
    """What all groups of a server share."""

    config: GenrmConfig
    store: GroupStore
    judges: Judges


class _Waiter(NamedTuple):
    membership: Membership
    result: asyncio.Future[GroupResult]


class ActiveGroup:
    """The waiters of one group, and the questions that are being asked for it."""

    def __init__(self, name: str, prompt: GroupPrompt, context: GroupContext) -> None:
        self.name = name
        self._prompt = prompt
        self._config, self._store, self._judges = context
        self._waiters: list[_Waiter] = []
        self._wake = asyncio.Event()
        self._state: GroupState | None = None
        self._group_result: GroupResult | None = None
        self._tasks: dict[AnswerKey, asyncio.Task[None]] = {}
        self._unstored_answers: dict[AnswerKey, Answer] = {}
        """Answers that are not on disk yet."""
        self._texts: dict[str, str] = {}
        """Texts of members, by digest; those of another server are read from the disk."""
        self._recheck_at = 0.0

    @property
    def is_awaited(self) -> bool:
        return bool(self._waiters)

    async def judge(self, membership: Membership, submission: Submission) -> GroupResult:
        """Wait for the judgement that `membership` is part of."""
        self._texts[submission.text_digest] = submission.candidate.text
        waiter = _Waiter(membership, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        self.refresh()
        try:
            return await waiter.result
        finally:
            self._waiters.remove(waiter)

    def refresh(self) -> None:
        """Read the state again: it may have changed on disk."""
        self._state = None
        self._wake.set()

    def dismiss(self, error: VerifierError) -> None:
        """End all waiters with an error."""
        for waiter in self._waiters:
            _fail(waiter, VerifierError(error.message, kind=error.kind))

    async def run(self) -> None:
        """Work until cancelled; a failure ends all waiters."""
        try:
            with boundary(VerifierError, f"group {self.name}"):
                deadline: float | None = None
                while True:
                    self._wake.clear()
                    if not self._has_only_new_answers():
                        wait_s = self._step()
                        deadline = None if wait_s is None else asyncio.get_running_loop().time() + wait_s
                    try:
                        async with asyncio.timeout_at(deadline):
                            await self._wake.wait()
                    except TimeoutError:
                        continue
        except PaddockError as error:
            self.dismiss(VerifierError(error.message, kind=error.kind))

    def end(self) -> None:
        """Store what was answered, and cancel what is being asked."""
        self._store_answers()
        self._cancel_questions(list(self._tasks))

    def _has_only_new_answers(self) -> bool:
        """Whether some of what is being asked was answered and nothing else happened: then there is nothing to decide,
        for a plan goes on when all that it wanted is there."""
        waits = self._state is not None and self._state.judgement is None
        answered = len(self._unstored_answers)
        self._store_answers()
        return waits and answered > 0 and bool(self._tasks)

    def _step(self) -> float | None:
        """Do all that can be done now; return the seconds until the next look without a cause of this server's."""
        self._store_answers()
        while True:
            state = self._state = self._state or self._store.read(self.name)
            if state is None:
                for waiter in self._waiters:
                    _fail(waiter, incomplete(0, withdrawn=0))
                return None
            self._fail_outdated(state)
            if state.judgement is not None:
                return self._ask_judges(state, self._answer_waiters(state, state.judgement))
            progress = open_questions(self._config, state)
            if progress.is_finished:
                self._settle(state, progress.judgement(self.name))
            elif progress.complete or (left_s := self._left_s(state)) is None:
                return self._ask_judges(state, progress.missing)
            elif left_s > 0:
                return _sooner(left_s, self._ask_judges(state, progress.missing))
            else:
                self._close_on_timeout(state)
            self._state = None

    def _left_s(self, state: GroupState) -> float | None:
        """Return the seconds that further members may take; None: any number."""
        if self._config.incomplete_group == "wait" or state.opened_at is None:
            return None
        if len(state.present) + len(state.withdrawn) == state.size:
            return 0.0
        return state.opened_at + self._config.group_timeout_s - self._store.clock()

    def _close_on_timeout(self, state: GroupState) -> None:
        if self._config.incomplete_group == "score_partial" and len(state.present) > 1:
            self._store.close_group(self.name, state.revision)
        else:
            self._store.give_up(self.name, state.revision)

    def _settle(self, state: GroupState, judgement: GroupJudgement) -> None:
        """Store the judgement; a group of which nobody can be scored begins anew with who comes again."""
        if len(judgement.masked) < len(judgement.members):
            self._store.settle(self.name, state.revision, judgement)
        elif self._store.reset(self.name, state.revision):
            for waiter in self._waiters:
                _fail(waiter, judgement.masked[waiter.membership.member].error())

    def _fail_outdated(self, state: GroupState) -> None:
        """End the waiters whose response counts no more."""
        for waiter in self._waiters:
            membership = waiter.membership
            member = state.members.get(membership.member)
            if membership.late:
                continue
            if member is not None and (member.attempt, member.digest) != (membership.attempt, membership.digest):
                _fail(waiter, superseded())
            elif member is None or member.presence != "here":
                _fail(waiter, incomplete(state.size, withdrawn=len(state.withdrawn)))

    def _answer_waiters(self, state: GroupState, judgement: GroupJudgement) -> dict[AnswerKey, None]:
        """Give every waiter its result that has one; return the questions that late members still need."""
        if self._group_result is None:
            self._group_result = GroupResult(judgement, self._config)
        missing: dict[AnswerKey, None] = {}
        for waiter in self._waiters:
            if waiter.result.done():
                continue
            if waiter.membership.late:
                missing.update(self._answer_late(waiter, state, judgement))
            elif waiter.membership.member in judgement.masked:
                _fail(waiter, judgement.masked[waiter.membership.member].error())
            else:
                waiter.result.set_result(self._group_result)
        return missing

    def _answer_late(self, waiter: _Waiter, state: GroupState, judgement: GroupJudgement) -> dict[AnswerKey, None]:
        membership = waiter.membership
        late_member = self._store.late_member(membership)
        if late_member is None:
            _fail(waiter, superseded())
            return {}
        member, own = late_member
        if own is None:
            progress = questions_of_late(self._config, state, judgement, membership.member, member)
            if not progress.is_finished:
                return progress.missing
            own = progress.judgement_of_late(judgement, membership.member, member)
            if membership.member in own.masked:
                _fail(waiter, own.masked[membership.member].error())
                return {}
            self._store.store_late_judgement(membership, own)
        waiter.result.set_result(GroupResult(own, self._config))
        return {}

    def _ask_judges(self, state: GroupState, missing: Mapping[AnswerKey, None]) -> float | None:
        """Ask what nobody asks, and cancel what is not needed; return the seconds until other servers are looked at."""
        self._cancel_questions([key for key in self._tasks if key not in missing])
        if not any(not waiter.result.done() for waiter in self._waiters):
            return None
        others = [key for key in missing if key not in self._tasks and key in state.claimed]
        wanted = [key for key in missing if key not in self._tasks and key not in state.claimed]
        now = asyncio.get_running_loop().time()
        if others and now >= self._recheck_at:
            self._recheck_at = now + RECHECK_S
            wanted += others
        mine = self._store.claim(self.name, wanted) if wanted else []
        for key in wanted:
            state.claimed[key] = ""
        for key in mine:
            self._tasks[key] = asyncio.get_running_loop().create_task(self._compare(key))
        return RECHECK_S if len(self._tasks) < len(missing) else None

    async def _compare(self, key: AnswerKey) -> None:
        try:
            with boundary(VerifierError, "comparison"):
                first, second = (self._text(digest) for digest in key[:2])
                answer: Answer = await self._judges.compare(self._prompt, first, second, key.judge_idx)
        except PaddockError as error:
            answer = FailedComparison(kind=error.kind, message=error.message, retryable=error.retryable)
        self._unstored_answers[key] = answer
        self._wake.set()

    def _text(self, digest: str) -> str:
        if digest not in self._texts:
            self._texts[digest] = self._store.text(self.name, digest)
        return self._texts[digest]

    def _store_answers(self) -> None:
        if not self._unstored_answers:
            return
        answered, self._unstored_answers = self._unstored_answers, {}
        self._store.answer(self.name, answered)
        for key in answered:
            self._tasks.pop(key, None)
        if self._state is not None:
            self._state.answers.update(answered)

    def _cancel_questions(self, keys: Iterable[AnswerKey]) -> None:
        given_up = list(keys)
        for key in given_up:
            self._tasks.pop(key).cancel()
        if given_up:
            self._store.release(self.name, given_up)
            if self._state is not None:
                for key in given_up:
                    self._state.claimed.pop(key, None)


def _fail(waiter: _Waiter, error: VerifierError) -> None:
    if not waiter.result.done():
        waiter.result.set_exception(error)


def _sooner(first_s: float, second_s: float | None) -> float:
    return first_s if second_s is None else min(first_s, second_s)
