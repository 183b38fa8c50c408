"""The metrics of a batch: `batch_metrics`.

Names   those of the published recipes where they have one (`train/total_reward/mean`, `train/turns_per_sample/mean`,
        `train/invalid_tool_call_rate`, ...).
Law     a mean is over what has the value: rewards, turns and reasons over the rollouts with a verdict. A failure is in
        `train/outcome/*` and in nothing else. Rewards are the environment's; what training adds to them
        (`shaped_rewards`) is `train/reward_component/*`. Where nothing has the value, the name is missing.
Names   of durations: `train/group_s` (of the longest member of each group) beside the loop's `lost/group_s`,
        `lost/slow_s` and `lost/too_old_s`, and `rollouts/group_s` of all that ended: where the lost ones took much
        longer, what is trained on is not what was asked for.
Units   shares are 0 to 1; staleness in versions of the weights; seconds end in `_s`.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, pstdev
from typing import get_args

import numpy as np

from paddock.training.core.records import Batch, Group, MaskReason, Member, TrainRow
from paddock.types import OUTCOMES, REWARDED

REASONS: Mapping[str, str] = {"no_patch": "no_patch", "patch_does_not_apply": "patch_cannot_apply"}
"""Reasons of a verdict whose share is a metric, by the metric's name."""


def batch_metrics(batch: Batch) -> dict[str, float]:
    members = [member for group in batch.groups for member in group.members]
    return {f"train/{name}": value for name, value in _all(batch, members)}


def _all(batch: Batch, members: Sequence[Member]) -> Iterator[tuple[str, float]]:
    yield from _verdicts([member for member in members if member.outcome in REWARDED])
    yield from _outcomes(batch, members)
    yield from _groups(batch)
    yield from _rows(batch)
    for name, values in sorted(batch.reward_components.items()):
        yield f"reward_component/{name}/mean", fmean(values)
    yield from _teachers(batch)
    yield from _agents(batch, members)


def _agents(batch: Batch, members: Sequence[Member]) -> Iterator[tuple[str, float]]:
    """What tells how each agent with its environment does, where they are mixed."""
    used = [group for group in batch.groups if group.id not in batch.dropped]
    trained = {(row.group, row.member): 0 for row in batch.rows}
    for row in batch.rows:
        trained[row.group, row.member] += row.tokens
    for name in sorted({member.agent for member in members} - {""}):
        own = [member for member in members if member.agent == name]
        rewards = [member.reward for member in own if member.outcome in REWARDED and member.reward is not None]
        groups = [group for group in used if group.agent == name]
        yield f"agent/{name}/groups", float(len(groups))
        yield from spread(f"agent/{name}/total_reward", rewards)
        yield f"agent/{name}/failed_rate", 1 - len(rewards) / len(own)
        yield f"agent/{name}/turns_per_sample/mean", fmean(member.turns for member in own)
        if groups:
            yield f"agent/{name}/groups_alike_rate", fmean(_has_equal_rewards(group) for group in groups)
            tokens = (trained.get((group.id, member.nth), 0) for group in groups for member in group.members)
            yield f"agent/{name}/tokens", float(sum(tokens))


def _verdicts(members: Sequence[Member]) -> Iterator[tuple[str, float]]:
    if not members:
        return
    yield from spread("total_reward", [member.reward for member in members if member.reward is not None])
    yield from spread("turns_per_sample", [float(member.turns) for member in members])
    yield from spread("rollout_s", [member.total_s for member in members])
    for reason, name in REASONS.items():
        yield f"{name}_rate", fmean(member.reason == reason for member in members)
    yield "truncation_rate", fmean(member.outcome == "truncated" for member in members)
    turns = sum(member.turns for member in members)
    for kind in ("invalid_tool_call", "malformed_thinking"):
        flawed = sum(flaw.kind == kind for member in members for flaw in member.flaws)
        yield f"{kind}_rate", flawed / max(turns, 1)
    for name in sorted({name for member in members for name in member.metrics}):
        yield f"verdict/{name}/mean", fmean(member.metrics[name] for member in members if name in member.metrics)


def _outcomes(batch: Batch, members: Sequence[Member]) -> Iterator[tuple[str, float]]:
    outcomes = Counter(member.outcome for member in members)
    for outcome in OUTCOMES:
        yield f"outcome/{outcome}", float(outcomes[outcome])
    yield "outcome/missing", float(sum(group.size for group in batch.groups) - len(members))
    masked = Counter(entry.reason for entry in batch.masked)
    for reason in get_args(MaskReason):
        yield f"masked/{reason}", float(masked[reason])
    yield "turns_skipped", float(sum(member.skipped for member in members))


def _groups(batch: Batch) -> Iterator[tuple[str, float]]:
    used = [group for group in batch.groups if group.id not in batch.dropped]
    yield "groups", float(len(used))
    yield "groups_dropped", float(len(batch.dropped))
    if used:
        yield from durations("group_s", [group.seconds for group in used])
        yield "groups_alike_rate", fmean(_has_equal_rewards(group) for group in used)
        yield "group_size/mean", fmean(sum(member.reward is not None for member in group.members) for group in used)


def _teachers(batch: Batch) -> Iterator[tuple[str, float]]:
    """How far the policy is from its teachers: the mean over trained tokens of its log-prob minus theirs, in nats."""
    scores = {
        (group.id, member.nth, sample.nth): sample.teacher_log_probs
        for group in batch.groups
        for member in group.members
        for sample in member.samples
        if sample.teacher_log_probs is not None
    }
    total, tokens = 0.0, 0
    for row in batch.rows if scores else ():
        theirs = scores.get((row.group, row.member, row.sample))
        if theirs is not None:
            total += float((row.generation_log_probs - theirs)[row.loss_mask].sum(dtype="float64"))
            tokens += row.tokens
    if tokens:
        yield "teacher/reverse_kl", total / tokens


def _has_equal_rewards(group: Group) -> bool:
    """Whether all rewards of a group are the same: then nothing is learned from it."""
    return len({member.reward for member in group.members if member.reward is not None}) < 2


def _rows(batch: Batch) -> Iterator[tuple[str, float]]:
    rows = batch.rows
    yield "samples", float(len(rows))
    yield "tokens", float(batch.tokens)
    yield "context_tokens", float(sum(len(row.ids) for row in rows) - batch.tokens)
    if not rows:
        return
    yield from spread("tokens_per_sample", [float(row.tokens) for row in rows])
    ages = [batch.step - span.version for row in rows for span in row.versions]
    lengths = [span.end - span.start for row in rows for span in row.versions]
    yield "staleness/mean", sum(age * length for age, length in zip(ages, lengths, strict=True)) / sum(lengths)
    yield "staleness/max", float(max(ages))
    yield "mixed_versions_rate", fmean(row.oldest != row.newest for row in rows)
    yield from advantage_metrics(rows)


def advantage_metrics(rows: Sequence[TrainRow]) -> Iterator[tuple[str, float]]:
    """As `spread`, over the trained tokens; row by row, because all of them together are large."""
    rows = [row for row in rows if row.tokens]
    if not rows:
        return
    n = sum(row.tokens for row in rows)
    mean = sum(row.trained_advantages.sum(dtype=np.float64) for row in rows) / n
    yield "advantages/mean", float(mean)
    yield (
        "advantages/stddev",
        math.sqrt(sum(np.square(row.trained_advantages.astype(np.float64) - mean).sum() for row in rows) / n),
    )
    yield "advantages/min", float(min(row.trained_advantages.min() for row in rows))
    yield "advantages/max", float(max(row.trained_advantages.max() for row in rows))


def spread(name: str, values: Sequence[float]) -> Iterator[tuple[str, float]]:
    """Mean, standard deviation (with n) and extremes of the values, by name; nothing for no values."""
    if values:
        yield f"{name}/mean", fmean(values)
        yield f"{name}/stddev", pstdev(values)
        yield f"{name}/min", min(values)
        yield f"{name}/max", max(values)


def durations(name: str, seconds: Sequence[float]) -> Iterator[tuple[str, float]]:
    """As `spread`, with the median (`p50`) and the 95th percentile, between the two nearest values in proportion."""
    yield from spread(name, seconds)
    if seconds:
        for percent in (50, 95):
            yield f"{name}/p{percent}", float(np.percentile(seconds, percent))
