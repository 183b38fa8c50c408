"""What training sees of rollouts: members of groups, and the rows of a batch.

Shapes  per-token fields of a `TrainRow` have one entry per id; entries where `loss_mask` is 0 are without meaning (0).
Law     a member has a reward exactly when its verdict may teach something (or a leak has its configured penalty); one
        without a reward enters no baseline, and none of its tokens is trained on.
Versions weights are numbered from 0, the ones that a run starts with; None: the engine did not say, or said something
        that no update of this run sent.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from paddock.tokens.export import RolloutSample
from paddock.types import Outcome

FlawKind = Literal["invalid_tool_call", "malformed_thinking"]
MaskReason = Literal[
    "infra",
    "row",
    "verifier",
    "leak",
    "cancelled",
    "not_exact",
    "overlong",
    "unknown_weights",
    "too_long",
    "invalid_tool_call",
    "malformed_thinking",
    "log_prob_error",
]
"""Why tokens are not trained on: the five failed outcomes; `not_exact`: no sample of it is proven; `overlong`: a budget
cut it (overlong filtering); `unknown_weights`: nobody knows what sampled it; `too_long`: longer than
`policy.max_total_sequence_length`; flaws, where the config masks them; `log_prob_error`: trainer and engine
disagree."""


class Flaw(NamedTuple):
    """Something wrong in what one turn sampled."""

    turn: str
    kind: FlawKind


class StepCredit(NamedTuple):
    """What one step of a rollout is rewarded with."""

    step: int
    """The harness's number of it, from 1."""
    turn_id: str | None
    """None: nobody knows which turn it is."""
    reward: float


class Member(NamedTuple):
    """One rollout of a group, ended."""

    nth: int
    """In its group, from 0."""
    outcome: Outcome
    reward: float | None
    """None: there is no verdict; never made up."""
    samples: tuple[RolloutSample, ...] = ()
    """Its exact samples; none: its tokens are not proven, or it failed."""
    flaws: tuple[Flaw, ...] = ()
    turns: int = 0
    reason: str | None = None
    """Of the verdict (`no_patch`, `cannot_apply`, ...), else the failure's kind."""
    metrics: Mapping[str, float] = {}
    """Of the verdict."""
    skipped: int = 0
    """Turns that no sample trains on."""
    total_s: float = 0.0
    """Wall clock of the rollout."""
    steps: tuple[StepCredit, ...] = ()
    """Its steps, where each is rewarded for itself (`step_credit`); none: its samples share its reward."""


class Group(NamedTuple):
    """The rollouts of one row that are compared with each other."""

    id: int
    """Counts the groups of a run, from 0; a re-rolled one keeps its id."""
    row: int
    """Index of its row in the dataset."""
    epoch: int
    members: tuple[Member, ...]
    """In order; missing ones are not here."""
    size: int
    """How many members were asked for."""
    version: int
    """Of the newest weights that had been sent when its first member began."""

    @property
    def seconds(self) -> float:
        """How long its longest member took."""
        return max((member.total_s for member in self.members), default=0.0)

    @property
    def oldest_version(self) -> int:
        """Of the oldest weights that sampled a token of it that is known."""
        spans = (span for member in self.members for one in member.samples for span in one.sample.spans)
        known = [version for span in spans if (version := version_number(span.weight_version)) is not None]
        return min(known, default=self.version)


class VersionSpan(NamedTuple):
    """Trained tokens of a row that one version of the weights sampled."""

    start: int
    end: int
    """Index after its last."""
    version: int


class TrainRow(NamedTuple):
    """One sample as the loss sees it."""

    group: int
    member: int
    sample: int
    """Among the member's samples."""
    ids: list[int]
    loss_mask: list[int]
    """1 where the token is trained on."""
    generation_log_probs: list[float]
    """Of the engine when it sampled."""
    advantages: list[float]
    """Per token: an advantage of its rollout or step, or that of a flaw."""
    reward: float
    """Of its rollout, or of its step."""
    oldest: int | None
    """Oldest version of the weights that sampled a trained token of it."""
    newest: int | None
    versions: tuple[VersionSpan, ...] = ()
    """Of the trained tokens, in order."""


class Masked(NamedTuple):
    """A member, or one sample of it, that is not trained on."""

    group: int
    member: int
    sample: int | None
    """None: the whole member."""
    reason: MaskReason
    """Of a flaw or of unknown weights: only those tokens of the sample are masked."""


class Batch(NamedTuple):
    """What one step trains on."""

    step: int
    """The step that trains on it, from 0; the weights' version before it."""
    rows: list[TrainRow]
    masked: list[Masked]
    groups: list[Group]
    """All that it was made of, dropped ones too."""
    dropped: list[int]
    """Ids of groups with too few members."""

    @property
    def tokens(self) -> int:
        """Trained on."""
        return sum(sum(row.loss_mask) for row in self.rows)


def version_number(version: str | None) -> int | None:
    """Of a version as the engine names it; None: not one of ours."""
    return int(version) if version is not None and version.isascii() and version.isdecimal() else None
