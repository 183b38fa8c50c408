"""Groups as JSON, for checkpoints and between processes: what is read is what was written, number by number.

Wire    a group is one object, its members in `members`, their samples as `RolloutSample.to_wire` makes them.
Errors  what is none of ours raises KeyError, TypeError or ValidationError; numbers that JSON has no form for (NaN, the
        infinities) are a ValueError when they are written, because they would be read as nothing.
"""

import math

from paddock.tokens.export import RolloutSample
from paddock.training.core.records import Flaw, Group, Member, StepCredit
from paddock.types import JsonObject


def group_to_wire(group: Group) -> JsonObject:
    return {**group._asdict(), "members": [_member_to_wire(group, member) for member in group.members]}


def group_from_wire(wire: JsonObject) -> Group:
    return Group(**{**wire, "members": tuple(_member_from_wire(member) for member in wire["members"])})


def _member_to_wire(group: Group, member: Member) -> JsonObject:
    numbers = [member.reward, member.total_s, *member.metrics.values()]
    numbers += (step.reward for step in member.steps)
    numbers += (number for sample in member.samples for number in (sample.reward, *sample.sample.log_probs))
    if not all(number is None or math.isfinite(number) for number in numbers):
        raise ValueError(f"member {member.nth} of group {group.id} has a number that is not finite")
    return {
        **member._asdict(),
        "samples": [sample.to_wire() for sample in member.samples],
        "flaws": [flaw._asdict() for flaw in member.flaws],
        "metrics": dict(member.metrics),
        "steps": [step._asdict() for step in member.steps],
    }


def _member_from_wire(wire: JsonObject) -> Member:
    samples = tuple(RolloutSample.from_wire(sample) for sample in wire["samples"])
    flaws = tuple(Flaw(**flaw) for flaw in wire["flaws"])
    steps = tuple(StepCredit(**step) for step in wire.get("steps", ()))
    return Member(**{**wire, "samples": samples, "flaws": flaws, "steps": steps})
