"""How one rollout ended, in short: the records in `index.jsonl` and `failures.jsonl`.

Law     an `RolloutResult` has a reward exactly when its outcome carries one. A `FailedAttempt` has no field for one.
Files   `index.jsonl` is derived: it says where each rollout stands in `rollouts.jsonl`, so that a resumed run reads
        600 bytes per rollout, not 30,000; it is made again when it does not fit.
Harness what an agent says of its harness in the response, under `harness`: `variant`, `ended`, `malformed`; what has
        another form is ignored.
Units   byte offsets from the start of `rollouts.jsonl`; seconds; `at` in seconds since 1970 UTC.
"""

from collections import Counter
from typing import Any, NamedTuple, Self

from pydantic import Field, model_validator

from paddock.types import REWARDED, FailedOutcome, JsonObject, Outcome, Owner, Record, Rollout, Row, Timing, Usage
from paddock.types.responses import calls

MAX_TOOLS = 20
MAX_TOOL_CHARS = 64


class MemberKey(NamedTuple):
    """Names one rollout of a run: the row's index, and the member of its group."""

    group_id: int
    member: int


class RolloutResult(Record):
    """How a rollout ended, without what was said in it."""

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
    """The verdict's reason."""
    labels: dict[str, str] = Field(default_factory=dict)
    """The verdict's labels."""
    variant: str | None = None
    """Which way of working was drawn for the row; None: the agent has only one, or does not say."""
    ended: str | None = None
    """What ended the harness; None: the agent does not say."""
    malformed: dict[str, int] = Field(default_factory=dict)
    """Number of calls that no tool could take, by what was wrong with them; empty where `ended` is None."""
    tools: dict[str, int] = Field(default_factory=dict)
    """Calls by the name of their tool: of the `MAX_TOOLS` that were called most, names up to `MAX_TOOL_CHARS`."""
    turns: int = 0
    usage: Usage = Usage()
    timing: Timing = Timing()
    metrics: dict[str, float] = Field(default_factory=dict)
    ended_at: float | None = None
    """Second since 1970 (UTC) in which its verdict was stored, or its last attempt failed; None: its line does not
    say, as those of older runs."""
    cost_usd: float | None = None
    """USD, by the prices that the run was given; None: it had none for the model, or tokens were not counted."""
    start: int | None = None
    """Where its line begins in `rollouts.jsonl`; None: it has none."""
    end: int | None = None
    """Where its line ends, the newline included."""
    crc32: int | None = None
    """Checksum of its line, as `lines.check` gives it; None: it has no line."""

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
    cost_usd: float | None = None
    """As of a `RolloutResult`."""
    at: float

    @property
    def key(self) -> MemberKey:
        return MemberKey(self.group_id, self.member)

    def result(self) -> RolloutResult:
        return RolloutResult(
            group_id=self.group_id,
            member=self.member,
            attempt=self.attempt,
            agent=self.agent,
            uuid=self.uuid,
            row_name=self.row_name,
            outcome=self.outcome,
            usage=self.usage,
            timing=self.timing,
            ended_at=self.at,
            cost_usd=self.cost_usd,
        )


def uuid_of(row: Row) -> str | None:
    uuid = row.task.get("uuid")
    return uuid if isinstance(uuid, str) else None


class HarnessReport(NamedTuple):
    """What an agent reports of its harness in a response."""

    variant: str | None = None
    ended: str | None = None
    malformed: dict[str, int] = {}


def harness_report(response: JsonObject | None) -> HarnessReport:
    report = response.get("harness") if response else None
    if not isinstance(report, dict):
        return HarnessReport()
    malformed = report.get("malformed")
    counts = malformed.items() if isinstance(malformed, dict) else ()
    return HarnessReport(
        _word(report.get("variant")),
        _word(report.get("ended")),
        {str(kind): count for kind, count in counts if isinstance(count, int)},
    )


def _tool_counts(response: JsonObject | None) -> dict[str, int]:
    # The names are a model's: any text, in any number.
    counts = Counter(call.name[:MAX_TOOL_CHARS] for call in calls(response))
    return dict(counts.most_common(MAX_TOOLS))


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def stamped_key(rollout: Rollout) -> MemberKey | None:
    """The key of a rollout within its run, as its row is stamped; None: the row isn't stamped."""
    stamp = rollout.row.stamp
    return None if stamp.group_id is None or stamp.member is None else MemberKey(stamp.group_id, stamp.member)


def result_of(rollout: Rollout, key: MemberKey) -> RolloutResult:
    """The result of a rollout with a verdict, without its place in the file; its row names the agent that ran."""
    stamp, report = rollout.row.stamp, harness_report(rollout.response)
    return RolloutResult(
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
        variant=report.variant,
        ended=report.ended,
        malformed=report.malformed,
        tools=_tool_counts(rollout.response),
        turns=len(rollout.turns),
        usage=rollout.usage,
        timing=rollout.timing,
        metrics=rollout.verdict.metrics if rollout.verdict else {},
        ended_at=rollout.ended_at,
        cost_usd=rollout.cost_usd,
    )
