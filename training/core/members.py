"""A rollout as a member of its group: the samples that may be trained on, and what metrics need of it.

Law     the reward is the verdict's, or the penalty that the config sets for a leak; any other failure has none, and no
        samples: nothing of it can be trained on by mistake.
Errors  ValueError for a rollout that is not stamped with its number in a group.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from paddock.tokens.export import RolloutSample, SamplePlan, Span, plan_rollout, routed_experts_of
from paddock.training.core.experts import expert_view
from paddock.training.core.flaws import FlawRules, flaws_of
from paddock.training.core.records import Member, MemberSample, TurnSpan
from paddock.training.core.reward_penalties import penalties_of
from paddock.training.core.settings import GroupSettings
from paddock.training.core.step_credit import step_credits
from paddock.types import Rollout, RoutedExperts


def member_of(rollout: Rollout, settings: GroupSettings, flaw_rules: FlawRules) -> Member:
    """The member. ValueError for a rollout that is not stamped with its number in a group."""
    nth = rollout.row.stamp.member
    if nth is None:
        raise ValueError("a rollout without _ng_rollout_index belongs to no group: the collection has to stamp it")
    planned = plan_rollout(rollout, settings.sample_mode)
    reward = reward_of(rollout, settings)
    verdict, failure = rollout.verdict, rollout.failure
    flaws = tuple(flaw for turn in rollout.turns for flaw in flaws_of(turn, flaw_rules))
    malformed = any(flaw.kind == "malformed_thinking" for flaw in flaws)
    return Member(
        nth=nth,
        outcome=rollout.outcome,
        reward=reward,
        samples=() if reward is None else tuple(_samples(rollout, planned)),
        flaws=flaws,
        turns=len(rollout.turns),
        reason=verdict.reason if verdict else failure.kind if failure else None,
        metrics=dict(verdict.metrics) if verdict else {},
        reward_components=dict(verdict.reward_components) if verdict else {},
        skipped=len(planned.skipped),
        total_s=rollout.timing.total_s,
        agent=rollout.row.agent_ref.name if rollout.row.agent_ref else "",
        steps=step_credits(verdict) if settings.step_credit else (),
        penalties=tuple(
            penalties_of(rollout.turns, flaw_rules.penalties, flaw_rules.thinking_tags, malformed_thinking=malformed)
        ),
    )


def _samples(rollout: Rollout, planned: SamplePlan) -> Iterator[MemberSample]:
    """As `rollout_samples`, but in arrays from the turns on: lists of long rollouts would take most of the time."""
    for nth, path in enumerate(planned.paths()):
        parts = [part for turn in path.turns for part in (turn.prompt_ids or (), turn.sampled_ids or ())]
        length = sum(map(len, parts))
        mask, log_probs = np.zeros(length, np.bool_), np.zeros(length, np.float32)
        end = 0
        for turn in path.turns:
            start = end + len(turn.prompt_ids or ())
            end = start + len(turn.sampled_ids or ())
            if turn.id in path.trained:
                mask[start:end] = True
                log_probs[start:end] = turn.log_probs
        experts = routed_experts_of(path.turns)
        yield MemberSample(
            row=rollout.row.name,
            nth=nth,
            cut=rollout.outcome == "truncated" or path.turns[-1].finish_reason == "length",
            ids=np.fromiter(chain.from_iterable(parts), np.int32, length),
            loss_mask=mask,
            log_probs=log_probs,
            spans=_turn_spans(path.spans),
            routed_experts=None if experts is None else expert_view(experts),
        )


def member_sample(exported: RolloutSample) -> MemberSample:
    """The sample in arrays."""
    sample = exported.sample
    return MemberSample(
        row=exported.row,
        nth=exported.index,
        cut=exported.cut,
        ids=np.array(sample.ids, np.int32),
        loss_mask=np.array(sample.loss_mask, np.bool_),
        log_probs=np.array(sample.log_probs, np.float32),
        spans=_turn_spans(sample.spans),
        routed_experts=None if (text := sample.routed_experts) is None else expert_view(RoutedExperts.from_text(text)),
    )


def _turn_spans(spans: Iterable[Span]) -> tuple[TurnSpan, ...]:
    return tuple(TurnSpan(span.turn, span.start, span.end, span.weight_version, span.trained) for span in spans)


def reward_of(rollout: Rollout, settings: GroupSettings) -> float | None:
    """The reward with which a rollout enters its group's baseline; None: it does not enter."""
    return settings.leak_penalty if rollout.outcome == "leak" else rollout.reward
