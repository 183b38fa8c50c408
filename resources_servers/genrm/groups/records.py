"""The records that the modules of `groups` exchange.

Digests (`keys.digest_of`) of a submission as a whole, which tells a repeated request; of what of it is judged, which
        tells a repeated comparison.
"""

from typing import Literal, NamedTuple

from pydantic import Field

from paddock.errors import VerifierError
from paddock.resources_servers.genrm.records import Candidate, JudgeScores, PairComparison, ResponseTraits
from paddock.types import Record

Presence = Literal["here", "given_up", "withdrawn"]
"""Of a member: its response counts; its group was given up, and its response counts no more; it comes no more."""


class GroupSlot(NamedTuple):
    """The group that a row's response belongs to, and its number there."""

    key: str
    """Of the group: a digest of its stamp, conversation and principle, and of how it is judged."""
    size: int
    member: int | None
    """None: the row does not say, and members are numbered as they come."""
    rounds: bool
    """The row does not say which of several groups of one key it belongs to, or not as which member: a full one is
    followed by another."""


class Submission(NamedTuple):
    """A response that is to be judged."""

    attempt: int
    digest: str
    """Of the whole response; of a row without a member number, of its request's id too."""
    candidate: Candidate
    text_digest: str
    """Of the candidate's text."""


class Membership(NamedTuple):
    """A submission that has become a member of a group."""

    group: str
    """Id of its group: of the key, and of the round where there are several."""
    member: int
    attempt: int
    digest: str
    late: bool
    """Its group was settled or closed without it."""


class AnswerKey(NamedTuple):
    """A question to a judge, within one group: digests of the texts in the order in which it sees them."""

    first: str
    second: str
    judge_idx: int


class FailedComparison(Record):
    """A comparison that failed, with its error; it masks the members that it touches."""

    kind: str
    message: str
    retryable: bool

    def error(self) -> VerifierError:
        return VerifierError(self.message, kind=self.kind, retryable=self.retryable)


Answer = JudgeScores | FailedComparison


class GroupMember(NamedTuple):
    """The submission that holds a number of a group."""

    attempt: int
    digest: str
    text_digest: str
    traits: ResponseTraits
    presence: Presence


class GroupJudgement(Record):
    """All that a settled group's rewards follow from; a late member has one of its own, with it in its place."""

    group: str
    members: dict[int, ResponseTraits]
    comparisons: list[PairComparison]
    masked: dict[int, FailedComparison] = {}
    """Members that a failed comparison touches: they get its error, and no reward."""
    pairs: list[tuple[int, int]] = Field(default_factory=list)
    """All that were compared or should have been."""
    partial: bool = False
    """It was closed before all members were there."""
    late: int | None = None
    """The member that came when the group was settled; None: it is the group's own judgement."""


def incomplete(size: int, *, withdrawn: int) -> VerifierError:
    """Make the error of a group that can't be judged; it is retryable unless members were withdrawn."""
    why = f"{withdrawn} of them come no more" if withdrawn else "not all of them were there in time"
    return VerifierError(
        f"none of this group of {size} is judged: {why}", kind="group_incomplete", retryable=not withdrawn
    )


def superseded() -> VerifierError:
    """Make the error of a response whose member has sent another."""
    return VerifierError(
        "another response of this group's member has taken this one's place", kind="superseded", retryable=False
    )
