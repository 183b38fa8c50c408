"""How one rollout ended, in short: the lines of `index.jsonl` and `failures.jsonl`.

Law     an `Ending` has a reward exactly when its outcome carries one. A `FailedAttempt` has no field for one.
Files   `index.jsonl` is derived: it says where each rollout stands in `rollouts.jsonl`, so that a resumed run reads
        600 bytes per rollout, not 30,000; it is made again when it does not fit.
Harness what an agent says of its harness in the response, under `harness`: `variant`, `ended`, `malformed`; what is not
        of that form is as if it were not there.
Units   byte offsets from the start of `rollouts.jsonl`; seconds; `at` in seconds since 1970 UTC.
"""

from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from paddock.types import REWARDED, JsonObject, Outcome, Owner, Record, Rollout, Row, Timing, Usage

FailedOutcome = Literal["infra", "row", "verifier", "leak", "cancelled"]
TERMINAL: frozenset[Outcome] = frozenset({"row", "leak"})
"""Failures that another attempt can't mend: a resumed run leaves them as they are."""
RETRIED: frozenset[Outcome] = frozenset({"infra", "verifier"})
"""Failures that are tried again at once, when they say that they may be."""


class MemberKey(NamedTuple):
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
    row_name: str | None = None
    """What the row calls itself (`Row.name`); the same row under two agents has one name."""
    outcome: Outcome
    reward: float | None = None
    reason: str | None = None
    """Of the verdict."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Of the verdict."""
    variant: str | None = None
    """Which way of working was drawn for the row; None: the agent has only one, or does not say."""
    ended: str | None = None
    """What ended the harness; None: the agent does not say."""
    malformed: dict[str, int] = Field(default_factory=dict)
    """Calls that no tool could take, by what was wrong; only where `ended` is said."""
    turns: int = 0
    usage: Usage = Usage()
    timing: Timing = Timing()
    metrics: dict[str, float] = Field(default_factory=dict)
    start: int | None = None
    """Where its line begins in `rollouts.jsonl`; None: it has none."""
    end: int | None = None
    """Where its line ends, the newline included."""
    crc32: int | None = None
    """Of its line, as `lines.check` gives it; None: it has none."""

    @model_validator(mode="after")
    def _reward_by_outcome(self) -> Self:
        if (self.outcome in REWARDED) != (self.reward is not None):
            raise ValueError(f"outcome {self.outcome!r} with reward {self.reward!r}")
        return self

    @property
    def key(self) -> MemberKey:
        return MemberKey(self.group_id, self.member)


class FailedAttempt(Record):
    """One attempt that gave no verdict."""

    group_id: int
    member: int
    attempt: int
    agent: str
    """Empty: the row's agent is not known."""
    uuid: str | None = None
    row_name: str | None = None
    outcome: FailedOutcome
    owner: Owner
    kind: str
    message: str
    stage: str | None = None
    retryable: bool = False
    doubtful: bool = False
    """The policy may have caused it: see `Failure`."""
    final: bool = False
    """No further attempt was made by this command."""
    timing: Timing = Timing()
    usage: Usage = Usage()
    at: float

    @property
    def key(self) -> MemberKey:
        return MemberKey(self.group_id, self.member)

    def ending(self) -> Ending:
        return Ending(
            group_id=self.group_id,
            member=self.member,
            attempt=self.attempt,
            agent=self.agent,
            uuid=self.uuid,
            row_name=self.row_name,
            outcome=self.outcome,
            usage=self.usage,
            timing=self.timing,
        )


def uuid_of(row: Row) -> str | None:
    uuid = row.task.get("uuid")
    return uuid if isinstance(uuid, str) else None


class HarnessTold(NamedTuple):
    """What an agent says of its harness."""

    variant: str | None = None
    ended: str | None = None
    malformed: dict[str, int] = {}


def harness_told(response: JsonObject | None) -> HarnessTold:
    told = response.get("harness") if response else None
    if not isinstance(told, dict):
        return HarnessTold()
    malformed = told.get("malformed")
    counts = malformed.items() if isinstance(malformed, dict) else ()
    return HarnessTold(
        _word(told.get("variant")),
        _word(told.get("ended")),
        {str(kind): count for kind, count in counts if isinstance(count, int)},
    )


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def stamped_key(rollout: Rollout) -> MemberKey | None:
    """Which rollout of its run it is, as its row is stamped; None: the row isn't stamped."""
    stamp = rollout.row.stamp
    return None if stamp.group_id is None or stamp.member is None else MemberKey(stamp.group_id, stamp.member)


def ending_of(rollout: Rollout, key: MemberKey) -> Ending:
    """The ending of a rollout with a verdict, its place in the file not yet known; its row names the agent that ran."""
    stamp, told = rollout.row.stamp, harness_told(rollout.response)
    return Ending(
        group_id=key.group_id,
        member=key.member,
        attempt=stamp.attempt or 0,
        agent=rollout.row.agent_ref.name if rollout.row.agent_ref else "",
        uuid=uuid_of(rollout.row),
        row_name=rollout.row.name,
        outcome=rollout.outcome,
        reward=rollout.reward,
        reason=rollout.verdict.reason if rollout.verdict else None,
        labels=rollout.verdict.labels if rollout.verdict else {},
        variant=told.variant,
        ended=told.ended,
        malformed=told.malformed,
        turns=len(rollout.turns),
        usage=rollout.usage,
        timing=rollout.timing,
        metrics=rollout.verdict.metrics if rollout.verdict else {},
    )
