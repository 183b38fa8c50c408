"""The batch of one step, made from groups: `make_batch`.

Law     a verdict enters its group's baseline whether or not its tokens can be trained on; a failure never does. Each
        token is trained on at most once, with the advantage of its rollout, or it is masked for a reason that is given.
Order   of the tokens' fates: no reward, no proven sample, cut by a budget (`overlong_filtering`), longer than the
        trainer takes, not scored by a teacher, without experts to replay, unknown weights, a turn with a flaw that the
        config masks.
Shares  samples of one rollout share its advantage, unless each step has its own (`step_credit`). With
        `token_level_loss` each of its tokens weighs the same, in however many samples it was split; with a mean per
        row, a rollout weighs as many times as it has samples.
Bounds  `advantage_clip_low` and `_high` hold for each token, whatever its advantage is made of, as in NeMo-RL; of
        REINFORCE++ where it is made, in the training step.
Flaws   the advantage that the config sets for a flawed turn stands in place of the rollout's, as in NeMo-RL
        (`_apply_message_level_advantage_penalties`); an invalid call goes before malformed thinking.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple, get_args

import numpy as np

from paddock.training.core.advantages import batch_deviation
from paddock.training.core.distillation import DistillationSettings, teacher_advantages
from paddock.training.core.gdpo import gdpo_advantages
from paddock.training.core.groups import repair
from paddock.training.core.records import (
    Batch,
    FlawKind,
    Group,
    MaskEntry,
    MaskReason,
    Member,
    MemberSample,
    TrainRow,
    TurnSpan,
    VersionSpan,
    version_number,
)
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.core.shaped_rewards import shape_groups
from paddock.training.core.step_credit import Credit, sample_credits
from paddock.types import FailedOutcome, Outcome

_MASK_REASONS: Mapping[Outcome, MaskReason] = {outcome: outcome for outcome in get_args(FailedOutcome)}


class _BatchRules(NamedTuple):
    grpo: GrpoSettings
    max_length: int
    known_versions: Container[int]
    distillation: DistillationSettings | None
    replays_experts: bool


class _FlawTreatment(NamedTuple):
    """What becomes of the flawed turns of a member, by turn id."""

    masked: frozenset[str]
    advantages: Mapping[str, float]


class _MemberRef(NamedTuple):
    group: int
    member: int

    def masked(self, sample: int | None, reason: MaskReason) -> MaskEntry:
        return MaskEntry(self.group, self.member, sample, reason)


def make_batch(
    groups: Sequence[Group],
    *,
    step: int,
    grpo: GrpoSettings,
    settings: GroupSettings,
    max_length: int,
    known_versions: Container[int],
    distillation: DistillationSettings | None = None,
    replays_experts: bool = False,
) -> Batch:
    """The batch of `step`. `max_length`: the most tokens of a sample that the trainer takes. `known_versions`: versions
    of the weights that this run sent; tokens that others sampled are masked. `distillation`: what teachers' scores do
    to advantages; None: there are none. `replays_experts`: of the engine; samples without are masked."""
    batch = Batch(step=step, rows=[], masked=[], groups=list(groups), dropped=[])
    rules = _BatchRules(grpo, max_length, known_versions, distillation, replays_experts)
    repaired = [_repaired(batch, group, settings) for group in groups]
    compared, reward_components = shape_groups([group for group in repaired if group is not None], grpo)
    std = batch_deviation([member.reward for group in compared for member in group.members])
    by_parts = gdpo_advantages(compared, grpo) if grpo.adv_estimator.name == "gdpo" else [None] * len(compared)
    for group, own in zip(compared, by_parts, strict=True):
        credits_by_member = sample_credits(group.members, grpo, batch_std=std, rollout_advantages=own)
        for member, sample_credit in zip(group.members, credits_by_member, strict=True):
            if sample_credit is not None:
                _add(batch, _MemberRef(group.id, member.nth), member, sample_credit, rules)
    return batch._replace(reward_components=reward_components)


def _repaired(batch: Batch, group: Group, settings: GroupSettings) -> Group | None:
    batch.masked.extend(_failed_members(group))
    whole = repair(group, settings)
    if whole is None:
        batch.dropped.append(group.id)
    return whole


def _failed_members(group: Group) -> Iterator[MaskEntry]:
    for member in group.members:
        if member.reward is None:
            yield MaskEntry(group.id, member.nth, None, _MASK_REASONS[member.outcome])


def _add(
    batch: Batch, member_ref: _MemberRef, member: Member, member_credits: Sequence[Credit], rules: _BatchRules
) -> None:
    if not member.samples:
        batch.masked.append(member_ref.masked(None, "not_exact"))
    for sample, credit in zip(member.samples, member_credits, strict=True):
        reason = _mask_reason(sample, rules)
        if reason is not None:
            batch.masked.append(member_ref.masked(sample.nth, reason))
            continue
        row = _row(member_ref, member, sample, credit, rules, batch.masked)
        if row.versions:
            batch.rows.append(row)


def _mask_reason(sample: MemberSample, rules: _BatchRules) -> MaskReason | None:
    """Why the whole sample is masked; None: it is not."""
    if sample.cut and rules.grpo.overlong_filtering:
        return "overlong"
    if len(sample.ids) > rules.max_length:
        return "too_long"
    if rules.distillation is not None and sample.teacher_log_probs is None:
        return "teacher_failed"
    return "no_routed_experts" if rules.replays_experts and sample.routed_experts is None else None


def _row(
    member_ref: _MemberRef,
    member: Member,
    sample: MemberSample,
    credit: Credit,
    rules: _BatchRules,
    masked: list[MaskEntry],
) -> TrainRow:
    mask, advantages = np.zeros(len(sample.ids), np.bool_), np.zeros(len(sample.ids), np.float32)
    versions: list[VersionSpan] = []
    reasons: list[MaskReason] = []
    flawed = _treat_flaws(member, rules.grpo)
    distillation = rules.distillation
    own_advantage = credit.advantage if distillation is None or distillation.with_rewards else 0.0
    for span in sample.spans:
        # Nothing stands before the first token that could give it a probability.
        start, end = max(span.start, 1), span.end
        if not span.trained or start >= end:
            continue
        version = version_number(span.weight_version)
        reason = _span_reason(span, version, flawed, rules)
        if reason is not None or version is None:
            reasons.append(reason or "unknown_weights")
            continue
        mask[start:end] = sample.loss_mask[start:end]
        advantages[start:end] = flawed.advantages.get(span.turn, own_advantage)
        versions.append(VersionSpan(start, end, version))
    if distillation is not None and sample.teacher_log_probs is not None:
        by_teacher = teacher_advantages(sample.log_probs, sample.teacher_log_probs, distillation)
        advantages += np.where(mask, by_teacher, np.float32(0))
    if rules.grpo.bounds_advantages:
        advantages[mask] = np.clip(advantages[mask], *rules.grpo.advantage_bounds)
    if not versions and not reasons:
        reasons.append("not_exact")
    masked.extend(member_ref.masked(sample.nth, reason) for reason in dict.fromkeys(reasons))
    whole = np.array_equal(mask, sample.loss_mask)
    return TrainRow(
        group=member_ref.group,
        member=member_ref.member,
        sample=sample.nth,
        ids=sample.ids,
        # Where all of it is trained on, arrays are the sample's own: a batch of long rollouts is gigabytes.
        loss_mask=sample.loss_mask if whole else mask,
        generation_log_probs=sample.log_probs if whole else np.where(mask, sample.log_probs, np.float32(0)),
        advantages=advantages,
        reward=credit.reward,
        oldest=min((span.version for span in versions), default=None),
        newest=max((span.version for span in versions), default=None),
        versions=tuple(versions),
        routed_experts=sample.routed_experts if rules.replays_experts else None,
    )


def _span_reason(span: TurnSpan, version: int | None, flawed: _FlawTreatment, rules: _BatchRules) -> MaskReason | None:
    if version is None or version not in rules.known_versions:
        return "unknown_weights"
    return "invalid_tool_call" if span.turn in flawed.masked else None


def _treat_flaws(member: Member, grpo: GrpoSettings) -> _FlawTreatment:
    turns: dict[FlawKind, list[str]] = {"invalid_tool_call": [], "malformed_thinking": []}
    for flaw in member.flaws:
        turns[flaw.kind].append(flaw.turn)
    advantages: dict[str, float] = {}
    masked: frozenset[str] = frozenset()
    if grpo.penalize_malformed_thinking and grpo.malformed_thinking_advantage is not None:
        advantages.update(dict.fromkeys(turns["malformed_thinking"], grpo.malformed_thinking_advantage))
    if grpo.penalize_invalid_tool_call:
        if grpo.invalid_tool_call_strategy == "mask":
            masked = frozenset(turns["invalid_tool_call"])
        elif grpo.invalid_tool_call_advantage is not None:
            advantages.update(dict.fromkeys(turns["invalid_tool_call"], grpo.invalid_tool_call_advantage))
    return _FlawTreatment(masked, advantages)
