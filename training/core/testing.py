"""Rollouts, members, groups and batches made by hand: for tests of what trains on them.

Lengths are in tokens; a span is (turn, start, end, version of the weights).
"""

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from paddock.training.core.batches import make_batch
from paddock.training.core.distillation import DistillationSettings
from paddock.training.core.records import Batch, Flaw, Group, Member, MemberSample, TurnSpan
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.types import REWARDED, FailedOutcome, Failure, Outcome, Rollout, Row, Stamp, Turn, Verdict

FAILED_OUTCOMES: tuple[FailedOutcome, ...] = get_args(FailedOutcome)


def turn(turn_id: str, parent: str | None = None, sampled: int = 2, **fields: Any) -> Turn:
    defaults: dict[str, Any] = {
        "prompt_ids": [1, 2],
        "sampled_ids": list(range(10, 10 + sampled)),
        "log_probs": [-0.5] * sampled,
        "weight_version": "0",
        "finish_reason": "stop",
        "request_hash": "",
        "output": [],
    }
    return Turn(id=turn_id, parent=parent, **{**defaults, **fields})


def rollout(outcome: Outcome = "completed", reward: float = 1.0, *, nth: int | None = 0, **fields: Any) -> Rollout:
    defaults: dict[str, Any] = {"engine": "exact", "turns": [turn("a")]}
    if outcome in REWARDED:
        defaults["verdict"] = Verdict(reward=reward, reason="match", metrics={"close": 0.5})
    else:
        defaults["failure"] = Failure(owner="infra", kind="timeout", message="")
    row = Row(responses_create_params={}, stamp=Stamp(group_id=0, group_size=4, member=nth))
    return Rollout(row=row, outcome=outcome, **{**defaults, **fields})


def sample(
    spans: Sequence[tuple[str, int, int, str | None]] = (("a", 2, 4, "0"),),
    *,
    index: int = 0,
    length: int = 6,
    cut: bool = False,
    trained: bool = True,
) -> MemberSample:
    """`spans`: turn, start, end, version."""
    mask = np.zeros(length, np.bool_)
    for _, start, end, _ in spans:
        mask[start:end] = trained
    return MemberSample(
        row=None,
        nth=index,
        cut=cut,
        ids=np.arange(length, dtype=np.int32),
        loss_mask=mask,
        log_probs=np.where(mask, np.float32(-0.25), np.float32(0)),
        spans=tuple(TurnSpan(*span, trained) for span in spans),
    )


def member(
    nth: int,
    reward: float | None = 1.0,
    *,
    outcome: Outcome | None = None,
    samples: Sequence[MemberSample] | None = None,
    flaws: Sequence[Flaw] = (),
    **fields: Any,
) -> Member:
    own: Outcome = outcome or ("infra" if reward is None else "completed")
    given = ([] if reward is None else [sample()]) if samples is None else samples
    return Member(nth, own, reward, tuple(given), tuple(flaws), turns=1, **fields)


def group(*members: Member, group_id: int = 0, size: int | None = None, version: int = 0) -> Group:
    return Group(group_id, 0, 0, members, len(members) if size is None else size, version)


def as_lists(value: Any) -> Any:
    """Records, or what holds them, with lists in place of arrays: they compare as a whole."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        items = map(as_lists, value)
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def batch(
    *groups: Group,
    step: int = 0,
    grpo: GrpoSettings | None = None,
    settings: GroupSettings | None = None,
    max_length: int = 100,
    known_versions: Any = range(3),
    distillation: DistillationSettings | None = None,
    replays_experts: bool = False,
) -> Batch:
    return make_batch(
        groups,
        step=step,
        grpo=grpo or GrpoSettings(),
        settings=settings or GroupSettings(),
        max_length=max_length,
        known_versions=known_versions,
        distillation=distillation,
        replays_experts=replays_experts,
    )
