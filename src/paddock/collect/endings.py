"""How one rollout ended, in short: the lines of `index.jsonl` and `failures.jsonl`.

Law     an `Ending` has a reward exactly when its outcome carries one. A `FailedAttempt` has no field for one.
Files   `index.jsonl` is derived: it says where each rollout stands in `rollouts.jsonl`, so that a resumed run reads
        300 bytes per rollout, not 30,000; it is made again when it does not fit.
Units   byte offsets from the start of `rollouts.jsonl`; seconds; `at` in seconds since 1970 UTC.
"""

from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from paddock.types import REWARDED, Outcome, Owner, Record, Rollout, Row, Timing, Usage

FailedOutcome = Literal["infra", "row", "verifier", "leak", "cancelled"]
TERMINAL: frozenset[Outcome] = frozenset({"row", "leak"})
"""Failures that another attempt can't mend: a resumed run leaves them as they are."""
RETRIED: frozenset[Outcome] = frozenset({"infra", "verifier"})
"""Failures that are tried again at once, when they say that they may be."""


class Member(NamedTuple):
    """Names one rollout of a run."""

    group_id: int
    member: int


class Ending(Record):
    """One rollout that has ended."""

    group_id: int
    member: int
    attempt: int = 0
    agent: str
    uuid: str | None = None
    """The row's own id, when its `uuid` is a string."""
    outcome: Outcome
    reward: float | None = None
    turns: int = 0
    usage: Usage = Usage()
    timing: Timing = Timing()
    metrics: dict[str, float] = Field(default_factory=dict)
    start: int | None = None
    """Where its line begins in `rollouts.jsonl`; None: it has none."""
    end: int | None = None
    """Where its line ends, the newline included."""

    @model_validator(mode="after")
    def _reward_by_outcome(self) -> Self:
        if (self.outcome in REWARDED) != (self.reward is not None):
            raise ValueError(f"outcome {self.outcome!r} with reward {self.reward!r}")
        return self

    @property
    def key(self) -> Member:
        return Member(self.group_id, self.member)


class FailedAttempt(Record):
    """One attempt that gave no verdict."""

    group_id: int
    member: int
    attempt: int
    agent: str
    """Empty: the row's agent is not known."""
    uuid: str | None = None
    outcome: FailedOutcome
    owner: Owner
    kind: str
    message: str
    stage: str | None = None
    retryable: bool = False
    final: bool = False
    """No further attempt was made by this command."""
    timing: Timing = Timing()
    usage: Usage = Usage()
    at: float

    @property
    def key(self) -> Member:
        return Member(self.group_id, self.member)

    def ending(self) -> Ending:
        return Ending(
            group_id=self.group_id,
            member=self.member,
            attempt=self.attempt,
            agent=self.agent,
            uuid=self.uuid,
            outcome=self.outcome,
            usage=self.usage,
            timing=self.timing,
        )


def uuid_of(row: Row) -> str | None:
    uuid = row.task.get("uuid")
    return uuid if isinstance(uuid, str) else None


def ending_of(rollout: Rollout) -> Ending:
    """The ending of a rollout with a verdict, its place in the file not yet known; its row names the agent that ran."""
    stamp = rollout.row.stamp
    return Ending(
        group_id=stamp.group_id or 0,
        member=stamp.member or 0,
        attempt=stamp.attempt or 0,
        agent=rollout.row.agent_ref.name if rollout.row.agent_ref else "",
        uuid=uuid_of(rollout.row),
        outcome=rollout.outcome,
        reward=rollout.reward,
        turns=len(rollout.turns),
        usage=rollout.usage,
        timing=rollout.timing,
        metrics=rollout.verdict.metrics if rollout.verdict else {},
    )
