"""Rollouts as a trainer gets them: groups of members, each with a reward or with the reason why there is none.

Law     a rollout without a verdict has no reward: None, never 0, and no samples. What has no samples has a `mask`.
Source  GRPO (arXiv 2402.03300) compares the members of a group, the rollouts of one row, with each other.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from paddock.collect.attempts import FinishedMember
from paddock.errors import PaddockError
from paddock.tokens.export import Mode, RolloutSample, plan_rollout, rollout_samples
from paddock.types import FailedOutcome, Outcome, Rollout

Mask = Literal[FailedOutcome, "not_exact"]
"""Why there is nothing to train on: how the rollout failed, or `not_exact`: no ids of it are proven."""


class TrainingRollout(NamedTuple):
    """One rollout that has ended, as a member of its group."""

    member: int
    """Its number in the group, from 0."""
    outcome: Outcome
    reward: float | None
    """The verdict's reward; None: it failed, and has to stay out of baseline and loss."""
    mask: Mask | None
    """Why there is nothing to train on; None: there are samples."""
    samples: tuple[RolloutSample, ...] = ()
    """Its exact samples, in the mode that was asked for."""
    reason: str | None = None
    """The verdict's reason, else the failure's kind."""
    metrics: Mapping[str, float] = {}
    """What the verifier measured; the components of the reward among it."""
    failure: str | None = None
    """The failure in words; None: it did not fail."""
    rollout: Rollout | None = None
    """The whole record; None: its row can't be read."""
    total_s: float = 0.0
    """Wall-clock seconds that it took, all attempts together."""


class RolloutGroup(NamedTuple):
    """The rollouts of one row, all of which have ended."""

    row_index: int
    """The row's number: among the rows of its stream, or as the trainer gave it."""
    members: tuple[TrainingRollout, ...]
    """All members, in order; those that failed too."""
    weight_version: str | None = None
    """Version of the weights that the trainer had announced when the group began; None: it announced none."""

    @property
    def rewards(self) -> list[float | None]:
        """The reward of each member; None where it has none."""
        return [member.reward for member in self.members]

    @property
    def trainable(self) -> list[TrainingRollout]:
        """The members that enter baseline and loss."""
        return [member for member in self.members if member.mask is None]


def training_rollout(finished: FinishedMember, mode: Mode, row_error: PaddockError | None = None) -> TrainingRollout:
    """A member of a collection as a trainer gets it. `row_error`: why its row can't be read."""
    rollout = finished.rollout
    number = finished.result.member
    if rollout is None:
        kind, text = (row_error.kind, f"{row_error.kind}: {row_error.message}") if row_error else ("no_agent", None)
        outcome = finished.result.outcome
        return TrainingRollout(number, outcome, None, "row", reason=kind, failure=text, total_s=finished.total_s)
    verdict, failure = rollout.verdict, rollout.failure
    samples: tuple[RolloutSample, ...] = ()
    if rollout.reward is not None:
        samples = tuple(rollout_samples(rollout, mode, plan_rollout(rollout, mode)))
    return TrainingRollout(
        member=number,
        outcome=rollout.outcome,
        reward=rollout.reward,
        mask=_mask(rollout, samples),
        samples=samples,
        reason=verdict.reason if verdict else failure.kind if failure else None,
        metrics=dict(verdict.metrics) if verdict else {},
        failure=f"{failure.kind}: {failure.message}" if failure else None,
        rollout=rollout,
        total_s=finished.total_s,
    )


def _mask(rollout: Rollout, samples: tuple[RolloutSample, ...]) -> Mask | None:
    if samples:
        return None
    match rollout.outcome:
        case "completed" | "truncated":
            return "not_exact"
        case failed:
            return failed
