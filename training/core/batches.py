"""From groups to what one step trains on: `make_batch`.

Law     a verdict enters its group's baseline whether or not its tokens can be trained on; a failure never does. Each
        token is trained on at most once, with the advantage of its rollout, or it is masked and the reason is told.
Order   of the tokens' fates: no reward, no proven sample, cut by a budget (`overlong_filtering`), longer than the
        trainer takes, weights that nobody knows, a turn with a flaw that the config masks.
Shares  samples of one rollout share its advantage, unless each step has its own (`step_credit`). With
        `token_level_loss` each of its tokens weighs the same, in however many samples it was split; with a mean per
        row, a rollout weighs as many times as it has samples.
Flaws   the advantage that the config sets for a flawed turn stands in place of the rollout's, unclipped, as in NeMo-RL
        (`_apply_message_level_advantage_penalties`); an invalid call goes before malformed thinking.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from paddock.tokens.export import RolloutSample, Span
from paddock.training.core.groups import repaired
from paddock.training.core.records import (
    Batch,
    FlawKind,
    Group,
    Masked,
    MaskReason,
    Member,
    TrainRow,
    VersionSpan,
    version_number,
)
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.core.step_credit import Credit, sample_credits
from paddock.types import Outcome

FAILED: Mapping[Outcome, MaskReason] = {
    "infra": "infra",
    "row": "row",
    "verifier": "verifier",
    "leak": "leak",
    "cancelled": "cancelled",
}


class _Rules(NamedTuple):
    grpo: GrpoSettings
    max_length: int
    known_versions: Container[int]


class _Flawed(NamedTuple):
    """Turns of a member that are not treated as the rest of it."""

    masked: frozenset[str]
    own: Mapping[str, float]
    """Advantages."""


class _Place(NamedTuple):
    group: int
    member: int

    def masked(self, sample: int | None, reason: MaskReason) -> Masked:
        return Masked(self.group, self.member, sample, reason)


def make_batch(
    groups: Sequence[Group],
    *,
    step: int,
    grpo: GrpoSettings,
    settings: GroupSettings,
    max_length: int,
    known_versions: Container[int],
) -> Batch:
    """`max_length`: tokens that the trainer takes of one sample. `known_versions`: of weights that were sent by this
    run; tokens that others sampled are masked."""
    batch = Batch(step=step, rows=[], masked=[], groups=list(groups), dropped=[])
    rules = _Rules(grpo, max_length, known_versions)
    for group in groups:
        batch.masked.extend(_failed(group))
        whole = repaired(group, settings)
        if whole is None:
            batch.dropped.append(group.id)
            continue
        found = sample_credits(whole.members, grpo)
        for member, given in zip(whole.members, found, strict=True):
            if given is not None:
                _add(batch, _Place(group.id, member.nth), member, given, rules)
    return batch


def _failed(group: Group) -> Iterator[Masked]:
    for member in group.members:
        if member.reward is None:
            yield Masked(group.id, member.nth, None, FAILED[member.outcome])


def _add(batch: Batch, place: _Place, member: Member, given: Sequence[Credit], rules: _Rules) -> None:
    if not member.samples:
        batch.masked.append(place.masked(None, "not_exact"))
    for one, credit in zip(member.samples, given, strict=True):
        reason = _unusable(one, rules)
        if reason is not None:
            batch.masked.append(place.masked(one.index, reason))
            continue
        row = _row(place, member, one, credit, rules, batch.masked)
        if row.versions:
            batch.rows.append(row)


def _unusable(one: RolloutSample, rules: _Rules) -> MaskReason | None:
    if one.cut and rules.grpo.overlong_filtering:
        return "overlong"
    return "too_long" if len(one.sample.ids) > rules.max_length else None


def _row(
    place: _Place, member: Member, one: RolloutSample, credit: Credit, rules: _Rules, masked: list[Masked]
) -> TrainRow:
    sample = one.sample
    length = len(sample.ids)
    mask, given, log_probs = [0] * length, [0.0] * length, [0.0] * length
    versions: list[VersionSpan] = []
    reasons: list[MaskReason] = []
    flawed = _flawed(member, rules.grpo)
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
        log_probs[start:end] = sample.log_probs[start:end]
        given[start:end] = [flawed.own.get(span.turn, credit.advantage)] * (end - start)
        versions.append(VersionSpan(start, end, version))
    if not versions and not reasons:
        reasons.append("not_exact")
    masked.extend(place.masked(one.index, reason) for reason in dict.fromkeys(reasons))
    return TrainRow(
        group=place.group,
        member=place.member,
        sample=one.index,
        ids=sample.ids,
        loss_mask=mask,
        generation_log_probs=log_probs,
        advantages=given,
        reward=credit.reward,
        oldest=min((span.version for span in versions), default=None),
        newest=max((span.version for span in versions), default=None),
        versions=tuple(versions),
    )


def _span_reason(span: Span, version: int | None, flawed: _Flawed, rules: _Rules) -> MaskReason | None:
    if version is None or version not in rules.known_versions:
        return "unknown_weights"
    return "invalid_tool_call" if span.turn in flawed.masked else None


def _flawed(member: Member, grpo: GrpoSettings) -> _Flawed:
    turns: dict[FlawKind, list[str]] = {"invalid_tool_call": [], "malformed_thinking": []}
    for flaw in member.flaws:
        turns[flaw.kind].append(flaw.turn)
    own: dict[str, float] = {}
    masked: frozenset[str] = frozenset()
    if grpo.penalize_malformed_thinking and grpo.malformed_thinking_advantage is not None:
        own.update(dict.fromkeys(turns["malformed_thinking"], grpo.malformed_thinking_advantage))
    if grpo.penalize_invalid_tool_call:
        if grpo.invalid_tool_call_strategy == "mask":
            masked = frozenset(turns["invalid_tool_call"])
        elif grpo.invalid_tool_call_advantage is not None:
            own.update(dict.fromkeys(turns["invalid_tool_call"], grpo.invalid_tool_call_advantage))
    return _Flawed(masked, own)
