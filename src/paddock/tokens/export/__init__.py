"""From a rollout's tree of turns to what a trainer sees: samples of exact ids, or their inline form.

`samples` makes a record's samples in one of four modes, `skipped` says what none of them trains on, and why; `plan` is
both, and how long they are, before any is made. `RolloutSample` is a sample with its rollout's stamps and reward: a
line of `paddock samples`. `inline` puts ids into a rollout's response, as NeMo-RL reads them.
"""

from paddock.tokens.export.exact_turns import ExactTurns, exact_turns
from paddock.tokens.export.inline import inline
from paddock.tokens.export.records import Mode, Reason, Sample, SkippedTurn, Span
from paddock.tokens.export.rollouts import RolloutSample, plan_rollout, rollout_samples
from paddock.tokens.export.sample_plan import (
    PlannedSample,
    SamplePath,
    SamplePlan,
    plan,
    routed_experts_of,
    samples,
    skipped,
)
from paddock.tokens.export.summary import Summary

__all__ = [
    "ExactTurns",
    "Mode",
    "PlannedSample",
    "Reason",
    "RolloutSample",
    "Sample",
    "SamplePath",
    "SamplePlan",
    "SkippedTurn",
    "Span",
    "Summary",
    "exact_turns",
    "inline",
    "plan",
    "plan_rollout",
    "rollout_samples",
    "routed_experts_of",
    "samples",
    "skipped",
]
