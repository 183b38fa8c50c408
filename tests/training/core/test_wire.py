"""Claims about groups as JSON: what is read is what was written."""

import math
from typing import get_args

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.tokens.export import RolloutSample, Sample, Span
from paddock.training.core.records import Flaw, FlawKind, Group, Member, StepCredit
from paddock.training.core.testing import group, member, sample
from paddock.training.core.wire import group_from_wire, group_to_wire
from paddock.types import OUTCOMES, Stamp

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(0, 2**40)
TEXTS = st.text(max_size=5)
STAMPS = st.builds(Stamp, run_id=st.none() | TEXTS, group_id=st.none() | COUNTS, member=st.none() | COUNTS)
STEPS = st.builds(StepCredit, step=COUNTS, turn_id=st.none() | TEXTS, reward=NUMBERS)


@st.composite
def samples(draw: st.DrawFn) -> RolloutSample:
    length = draw(st.integers(1, 5))
    start = draw(st.integers(0, length - 1))
    version = draw(st.none() | st.just("default") | st.integers(0, 9).map(str))
    return RolloutSample(
        stamp=draw(STAMPS),
        row=draw(st.none() | TEXTS),
        outcome=draw(st.sampled_from(OUTCOMES)),
        reward=draw(st.none() | NUMBERS),
        engine=draw(st.sampled_from(["exact", "spliced"])),
        mode="whole",
        index=draw(COUNTS),
        count=draw(COUNTS),
        cut=draw(st.booleans()),
        sample=Sample(
            ids=draw(st.lists(COUNTS, min_size=length, max_size=length)),
            loss_mask=draw(st.lists(st.integers(0, 1), min_size=length, max_size=length)),
            log_probs=draw(st.lists(NUMBERS, min_size=length, max_size=length)),
            spans=[
                Span(turn=draw(TEXTS), start=start, end=length, weight_version=version, trained=draw(st.booleans()))
            ],
            finish_reason=draw(st.none() | st.just("length")),
        ),
    )


MEMBERS = st.builds(
    Member,
    nth=COUNTS,
    outcome=st.sampled_from(OUTCOMES),
    reward=st.none() | NUMBERS,
    samples=st.lists(samples(), max_size=2).map(tuple),
    flaws=st.lists(st.builds(Flaw, turn=TEXTS, kind=st.sampled_from(get_args(FlawKind))), max_size=2).map(tuple),
    turns=COUNTS,
    reason=st.none() | TEXTS,
    metrics=st.dictionaries(TEXTS, NUMBERS, max_size=2),
    skipped=COUNTS,
    steps=st.lists(STEPS, max_size=2).map(tuple),
    total_s=NUMBERS,
)
GROUPS = st.builds(
    Group,
    id=COUNTS,
    row=COUNTS,
    epoch=COUNTS,
    members=st.lists(MEMBERS, max_size=3).map(tuple),
    size=COUNTS,
    version=COUNTS,
)


@settings(max_examples=30)
@given(GROUPS)
def test_what_is_read_is_what_was_written(one: Group) -> None:
    line = orjson.dumps(group_to_wire(one))
    read = group_from_wire(orjson.loads(line))
    assert read == one
    assert orjson.dumps(group_to_wire(read)) == line, "number by number: 1 and 1.0 are equal, but not the same"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_can_not_say_is_refused(number: float) -> None:
    off = sample().model_copy(update={"sample": sample().sample.model_copy(update={"log_probs": [number] * 6})})
    stepped = member(0, steps=(StepCredit(1, "a", number),))
    for one in (member(0, number), member(0, metrics={"close": number}), member(0, samples=[off]), stepped):
        with pytest.raises(ValueError, match="not finite"):
            group_to_wire(group(one))
