"""From a group's state to what is still to be asked of the judges, and to its judgement when nothing is. Pure.

Law     a failed comparison masks the two members that it touches, and no other; it is no number anywhere.
Late    a member that came when its group was settled is compared as its number was (or would be) there, with the
        members of then; all other comparisons are the group's.
"""

from collections.abc import Mapping
from typing import NamedTuple

from paddock.resources_servers.genrm.config import GenrmConfig
from paddock.resources_servers.genrm.groups.plan import Question, pairs_of_late, plan_comparisons, questions_of
from paddock.resources_servers.genrm.groups.records import (
    Answer,
    AnswerKey,
    FailedComparison,
    GroupJudgement,
    GroupMember,
)
from paddock.resources_servers.genrm.groups.store import GroupState
from paddock.resources_servers.genrm.records import JudgeScores, MemberPair, PairComparison


class GroupProgress(NamedTuple):
    """What a group, or a late member of it, has to ask the judges, and the answers so far."""

    members: Mapping[int, GroupMember]
    """The members that are compared, by number."""
    size: int
    pairs: list[MemberPair]
    questions: dict[Question, AnswerKey]
    answers: Mapping[AnswerKey, Answer]
    complete: bool
    """No further member is let in."""

    @property
    def missing(self) -> dict[AnswerKey, None]:
        """Questions without an answer, in order."""
        return {key: None for key in self.questions.values() if key not in self.answers}

    @property
    def is_finished(self) -> bool:
        return self.complete and all(key in self.answers for key in self.questions.values())

    def judgement(self, group: str) -> GroupJudgement:
        return GroupJudgement(
            group=group,
            members={number: member.traits for number, member in self.members.items()},
            comparisons=self._comparisons(),
            masked=self._masked(),
            pairs=[tuple(pair) for pair in self.pairs],
            partial=len(self.members) < self.size,
        )

    def judgement_of_late(self, settled: GroupJudgement, number: int, member: GroupMember) -> GroupJudgement:
        masked = self._masked()
        others = [vote for vote in settled.comparisons if number not in (vote.response_i, vote.response_j)]
        return settled.model_copy(
            update={
                "members": {**settled.members, number: member.traits},
                "comparisons": [*others, *self._comparisons()],
                "masked": {number: masked[number]} if number in masked else {},
                "pairs": [*(pair for pair in settled.pairs if number not in pair), *map(tuple, self.pairs)],
                "late": number,
            }
        )

    def _comparisons(self) -> list[PairComparison]:
        comparisons = (comparison_of(question, self.answers.get(key)) for question, key in self.questions.items())
        return [comparison for comparison in comparisons if comparison is not None]

    def _masked(self) -> dict[int, FailedComparison]:
        masked: dict[int, FailedComparison] = {}
        for question, key in self.questions.items():
            answer = self.answers.get(key)
            if isinstance(answer, FailedComparison):
                masked.setdefault(question.first, answer)
                masked.setdefault(question.second, answer)
        return masked


def open_questions(config: GenrmConfig, state: GroupState) -> GroupProgress:
    """Return the questions and answers of a group that is not settled."""
    present = state.present
    members = {number: state.members[number] for number in present}
    complete = state.closed or len(present) == state.size

    def answered(question: Question) -> PairComparison | None:
        return comparison_of(question, state.answers.get(_key(members, question)))

    plan = plan_comparisons(config, present, state.size, complete=complete, answered=answered)
    keys = {question: _key(members, question) for question in plan.questions}
    return GroupProgress(members, state.size, plan.pairs, keys, state.answers, complete)


def questions_of_late(
    config: GenrmConfig, state: GroupState, settled: GroupJudgement, number: int, member: GroupMember
) -> GroupProgress:
    """Return the questions and answers of a member that came when the group was settled."""
    members = {other: state.members[other] for other in settled.members} | {number: member}
    before = [MemberPair(*pair) for pair in settled.pairs]
    pairs = pairs_of_late(config, before, list(settled.members), state.size, number)
    keys = {question: _key(members, question) for question in questions_of(config, pairs)}
    return GroupProgress(members, state.size, pairs, keys, state.answers, complete=True)


def comparison_of(question: Question, answer: Answer | None) -> PairComparison | None:
    """Turn a judge's answer into a comparison of two members; None: there is no answer, or it failed."""
    if not isinstance(answer, JudgeScores):
        return None
    return PairComparison(
        response_i=question.first,
        response_j=question.second,
        judge_idx=question.judge_idx,
        score_1=answer.score_1,
        score_2=answer.score_2,
        ranking=answer.ranking,
        missing=answer.missing,
    )


def _key(members: Mapping[int, GroupMember], question: Question) -> AnswerKey:
    first, second = members[question.first], members[question.second]
    return AnswerKey(first.text_digest, second.text_digest, question.judge_idx)
