"""Rollouts as training sees them: members of groups, and the rows of a batch.

Shapes  per-token fields of a `MemberSample` and a `TrainRow` are arrays of numpy's, `[length]`: one entry per id.
        Entries where `loss_mask` is false are without meaning (0). They may be shared, and are not written to.
Law     a member has a reward exactly when its verdict may teach something (or a leak has its configured penalty); one
        without a reward enters no baseline, and none of its tokens is trained on.
Versions weights are numbered from 0, the ones that a run starts with; None: the engine gave no version, or one
        that no update of this run sent.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from paddock.types import FailedOutcome, Outcome

if TYPE_CHECKING:  # numpy comes with training: the records are read without it.
    import numpy as np
    from numpy.typing import NDArray

FlawKind = Literal["invalid_tool_call", "malformed_thinking"]
MaskReason = Literal[
    FailedOutcome,
    "not_exact",
    "overlong",
    "unknown_weights",
    "too_long",
    "invalid_tool_call",
    "malformed_thinking",
    "log_prob_error",
    "teacher_failed",
    "no_routed_experts",
]
"""Why tokens are not trained on: the failed outcomes; `not_exact`: no sample of it is proven; `overlong`: a budget
cut it (overlong filtering); `unknown_weights`: the weights that sampled it are unknown; `too_long`: longer than
`policy.max_total_sequence_length`; flaws, where the config masks them; `log_prob_error`: trainer and engine
disagree; `teacher_failed`: it was to be scored by a teacher, and was not; `no_routed_experts`: the engine's experts
are to be replayed, and those of one of its tokens at least were not recorded."""


class Flaw(NamedTuple):
    """A flaw in what one turn sampled."""

    turn: str
    kind: FlawKind


class StepCredit(NamedTuple):
    """The reward of one step of a rollout."""

    step: int
    """The harness's number of the step, from 1."""
    turn_id: str | None
    """The turn that the step is; None: it is not known."""
    reward: float


class TurnSpan(NamedTuple):
    """The tokens of a sample that one version of the weights sampled in one turn."""

    turn: str
    start: int
    end: int
    """The index after its last token."""
    weight_version: str | None
    """As the engine names it; None: it is not known."""
    trained: bool
    """False: it is context here."""


class MemberSample(NamedTuple):
    """One sample of a rollout (`paddock.tokens.export`), as far as training needs it."""

    row: str | None
    """What the row calls itself; None: nothing."""
    nth: int
    """Among the rollout's samples, from 0."""
    cut: bool
    """A budget ended it."""
    ids: "NDArray[np.int32]"
    loss_mask: "NDArray[np.bool_]"
    """True where the token may be trained on."""
    log_probs: "NDArray[np.float32]"
    """The engine's log-probs when it sampled."""
    spans: tuple[TurnSpan, ...]
    """What was sampled, in order; the rest is prompt or environment text."""
    teacher_log_probs: "NDArray[np.float32] | None" = None
    """A teacher's log-probs; None: none scored it."""
    routed_experts: "NDArray[np.signedinteger] | None" = None
    """`[length - 1, layers, k]`: the engine's experts of each token but the last; None: not recorded of all."""


class Member(NamedTuple):
    """One rollout of a group that has ended."""

    nth: int
    """Its number in the group, from 0."""
    outcome: Outcome
    reward: float | None
    """None: there is no verdict."""
    samples: tuple[MemberSample, ...] = ()
    """Its exact samples; empty where its tokens are not proven, or it failed."""
    flaws: tuple[Flaw, ...] = ()
    turns: int = 0
    reason: str | None = None
    """The verdict's reason (`no_patch`, `cannot_apply`, ...), else the failure's kind."""
    metrics: Mapping[str, float] = {}
    """The verdict's metrics."""
    skipped: int = 0
    """How many turns no sample trains on."""
    total_s: float = 0.0
    """Wall-clock time of the rollout, in seconds."""
    agent: str = ""
    """Instance name of the agent that ran it; empty: it is not known."""
    steps: tuple[StepCredit, ...] = ()
    """Its steps, where each has a reward of its own (`step_credit`); empty: its samples share its reward."""
    penalties: tuple[str, ...] = ()
    """The `reward_penalties` that are due; with one, it has no reward above 0."""
    reward_components: Mapping[str, float] = {}
    """The parts of the verdict's reward, by name; empty: it has none."""


class Group(NamedTuple):
    """The rollouts of one row that are compared with each other."""

    id: int
    """The number of the group in its run, from 0; a re-rolled group keeps it."""
    row: int
    """Index of its row in the dataset."""
    epoch: int
    members: tuple[Member, ...]
    """Those that have ended, in order."""
    size: int
    """How many members it is to have."""
    version: int
    """Version of the newest weights that had been sent when its first member started."""

    @property
    def agent(self) -> str:
        """Instance name of the agent that ran its members; empty: it is not known."""
        return self.members[0].agent if self.members else ""

    @property
    def seconds(self) -> float:
        """How long the longest member took."""
        return max((member.total_s for member in self.members), default=0.0)

    @property
    def oldest_version(self) -> int:
        """Version of the oldest weights that sampled one of its tokens, as far as versions are known."""
        spans = (span for member in self.members for sample in member.samples for span in sample.spans)
        versions = [version for span in spans if (version := version_number(span.weight_version)) is not None]
        return min(versions, default=self.version)


class VersionSpan(NamedTuple):
    """A span of trained tokens of a row, sampled by one version of the weights."""

    start: int
    end: int
    """The index after its last token."""
    version: int


class TrainRow(NamedTuple):
    """One sample as the loss sees it."""

    group: int
    member: int
    sample: int
    """Index among the member's samples."""
    ids: "NDArray[np.int32]"
    loss_mask: "NDArray[np.bool_]"
    """True where the token is trained on."""
    generation_log_probs: "NDArray[np.float32]"
    """The engine's log-probs when it sampled."""
    advantages: "NDArray[np.float32]"
    """The advantage of each token: that of its rollout or step, or that of a flaw."""
    reward: float
    """The reward of its rollout, or of its step."""
    oldest: int | None
    """The oldest version of the weights that sampled one of its trained tokens."""
    newest: int | None
    versions: tuple[VersionSpan, ...] = ()
    """Who sampled the trained tokens, in order."""
    routed_experts: "NDArray[np.signedinteger] | None" = None
    """As its sample has them; None: they are not replayed."""

    @property
    def tokens(self) -> int:
        """How many of its tokens are trained on."""
        return int(self.loss_mask.sum())

    @property
    def trained_advantages(self) -> "NDArray[np.floating]":
        """Those of its trained tokens, `[tokens]`."""
        return self.advantages[self.loss_mask]


class MaskEntry(NamedTuple):
    """A member, or one sample of it, that is not trained on, and why."""

    group: int
    member: int
    sample: int | None
    """Index of the sample; None: the whole member is masked."""
    reason: MaskReason
    """For a flaw or unknown weights only the tokens concerned are masked, else the whole sample."""


class Batch(NamedTuple):
    """The samples that one step trains on."""

    step: int
    """The step that trains on it, from 0; the weights' version before it."""
    rows: list[TrainRow]
    masked: list[MaskEntry]
    groups: list[Group]
    """All groups that it was made from, dropped ones too."""
    dropped: list[int]
    """Ids of groups with too few members."""
    reward_components: Mapping[str, Sequence[float]] = {}
    """What was added to the environment's rewards, by name, of each member that has it; empty: nothing."""

    @property
    def tokens(self) -> int:
        """How many tokens are trained on."""
        return sum(row.tokens for row in self.rows)


def version_number(version: str | None) -> int | None:
    """The number of a version as the engine names it; None: this run did not send it."""
    return int(version) if version is not None and version.isascii() and version.isdecimal() else None
