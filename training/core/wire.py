"""Waiting groups as a file of a checkpoint: what is read is what was written, number by number.

Form    an archive of numpy's (npz). `groups` is JSON in bytes: the groups, their members and samples, without arrays.
        `ids_N`, `loss_mask_N`, `log_probs_N` and, where there are any, `teacher_log_probs_N` and `routed_experts_N` are
        the arrays of the Nth sample.
Lines   the version before wrote a group as a line of JSON, its samples as lines of `paddock samples`: they are read.
Errors  what is none of ours raises KeyError, TypeError, ValueError or BadZipFile (a checksum that is wrong among them);
        numbers that JSON has no form for (NaN, the infinities) are a ValueError when they are written, because they
        would be read as nothing. Log-probs may be any.
"""

import math
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import numpy as np
import orjson

from paddock.tokens.export import RolloutSample
from paddock.training.core.members import member_sample
from paddock.training.core.records import Flaw, Group, Member, MemberSample, StepCredit, TurnSpan
from paddock.types import JsonObject

ARRAYS = ("ids", "loss_mask", "log_probs", "teacher_log_probs", "routed_experts")
"""Fields of a sample; the last two may be missing."""


def write_groups(path: Path, groups: Sequence[Group]) -> None:
    """Write the groups to a file whose name ends in `.npz`."""
    text = orjson.dumps([_group_to_wire(group) for group in groups])
    samples = [sample for group in groups for member in group.members for sample in member.samples]
    fields = ((f"{name}_{nth}", getattr(sample, name)) for nth, sample in enumerate(samples) for name in ARRAYS)
    arrays = {key: value for key, value in fields if value is not None}
    np.savez(path, groups=np.frombuffer(text, np.uint8), **arrays)


def read_groups(path: Path) -> list[Group]:
    with np.load(path) as stored:
        numbers = count()

        def sample_of(wire: JsonObject) -> MemberSample:
            nth = next(numbers)
            spans = tuple(TurnSpan(*span) for span in wire["spans"])
            keys = {name: f"{name}_{nth}" for name in ARRAYS}
            arrays = {name: stored[key] for name, key in keys.items() if key in stored}
            return MemberSample(**{**wire, "spans": spans}, **arrays)

        return [_group_from_wire(group, sample_of) for group in orjson.loads(stored["groups"].tobytes())]


def group_from_line(line: bytes) -> Group:
    """A group that the version before wrote."""
    return _group_from_wire(orjson.loads(line), lambda wire: member_sample(RolloutSample.from_wire(wire)))


def _group_to_wire(group: Group) -> JsonObject:
    return {**group._asdict(), "members": [_member_to_wire(group, member) for member in group.members]}


def _member_to_wire(group: Group, member: Member) -> JsonObject:
    by_name = (*member.metrics.values(), *member.reward_components.values())
    numbers = [member.reward, member.total_s, *by_name, *(step.reward for step in member.steps)]
    if not all(number is None or math.isfinite(number) for number in numbers):
        raise ValueError(f"member {member.nth} of group {group.id} has a number that is not finite")
    return {
        **member._asdict(),
        "samples": [_sample_to_wire(sample) for sample in member.samples],
        "flaws": [flaw._asdict() for flaw in member.flaws],
        "metrics": dict(member.metrics),
        "reward_components": dict(member.reward_components),
        "steps": [step._asdict() for step in member.steps],
    }


def _sample_to_wire(sample: MemberSample) -> JsonObject:
    fields = {name: value for name, value in sample._asdict().items() if name not in ARRAYS}
    return {**fields, "spans": [list(span) for span in sample.spans]}


def _group_from_wire(wire: JsonObject, sample_of: Callable[[JsonObject], MemberSample]) -> Group:
    return Group(**{**wire, "members": tuple(_member_from_wire(member, sample_of) for member in wire["members"])})


def _member_from_wire(wire: JsonObject, sample_of: Callable[[JsonObject], MemberSample]) -> Member:
    samples = tuple(map(sample_of, wire["samples"]))
    flaws = tuple(Flaw(**flaw) for flaw in wire["flaws"])
    steps = tuple(StepCredit(**step) for step in wire.get("steps", ()))
    penalties = tuple(wire.get("penalties", ()))
    return Member(**{**wire, "samples": samples, "flaws": flaws, "steps": steps, "penalties": penalties})
