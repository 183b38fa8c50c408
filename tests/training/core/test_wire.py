"""Claims about the file of waiting groups: what is read is what was written."""

import math
import tempfile
from pathlib import Path
from typing import get_args
from zipfile import BadZipFile

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.tokens.export import rollout_samples
from paddock.training.core.members import member_sample
from paddock.training.core.records import Flaw, FlawKind, Group, Member, MemberSample, StepCredit, TurnSpan
from paddock.training.core.testing import as_lists, group, member, rollout, sample, turn
from paddock.training.core.wire import group_from_line, read_groups, write_groups
from paddock.types import OUTCOMES

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(0, 2**40)
TEXTS = st.text(max_size=5)
STEPS = st.builds(StepCredit, step=COUNTS, turn_id=st.none() | TEXTS, reward=NUMBERS)


@st.composite
def samples(draw: st.DrawFn) -> MemberSample:
    length = draw(st.integers(1, 5))
    start = draw(st.integers(0, length - 1))
    version = draw(st.none() | st.just("default") | st.integers(0, 9).map(str))
    experts = st.lists(st.integers(0, 300), min_size=2 * length - 2, max_size=2 * length - 2)
    log_probs = st.lists(st.floats(width=32), min_size=length, max_size=length)
    return MemberSample(
        row=draw(st.none() | TEXTS),
        nth=draw(COUNTS),
        cut=draw(st.booleans()),
        ids=np.array(draw(st.lists(st.integers(0, 2**31 - 1), min_size=length, max_size=length)), np.int32),
        loss_mask=np.array(draw(st.lists(st.booleans(), min_size=length, max_size=length))),
        log_probs=np.array(draw(log_probs), np.float32),
        spans=(TurnSpan(draw(TEXTS), start, length, version, draw(st.booleans())),),
        teacher_log_probs=draw(st.none() | log_probs.map(lambda values: np.array(values, np.float32))),
        routed_experts=draw(st.none() | experts.map(lambda ids: np.array(ids, np.int16).reshape(length - 1, 1, 2))),
    )


MEMBERS = st.builds(
    Member,
    nth=COUNTS,
    outcome=st.sampled_from(OUTCOMES),
    reward=st.none() | NUMBERS,
    samples=st.lists(samples(), max_size=2).map(tuple),
    penalties=st.lists(TEXTS, max_size=2).map(tuple),
    flaws=st.lists(st.builds(Flaw, turn=TEXTS, kind=st.sampled_from(get_args(FlawKind))), max_size=2).map(tuple),
    turns=COUNTS,
    reason=st.none() | TEXTS,
    metrics=st.dictionaries(TEXTS, NUMBERS, max_size=2),
    reward_components=st.dictionaries(TEXTS, NUMBERS, max_size=2),
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
@given(st.lists(GROUPS, max_size=3))
def test_what_is_read_is_what_was_written(groups: list[Group]) -> None:
    with tempfile.TemporaryDirectory() as name:
        first, second = Path(name) / "first.npz", Path(name) / "second.npz"
        write_groups(first, groups)
        read = read_groups(first)
        write_groups(second, read)
        assert repr(as_lists(read)) == repr(as_lists(groups)), "number by number: NaN too, and 1 is not 1.0"
        assert second.read_bytes() == first.read_bytes()


def test_a_file_with_a_flipped_bit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "waiting.npz"
    write_groups(path, [group(member(0))])
    content = bytearray(path.read_bytes())
    content[content.index(sample().ids.tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadZipFile, match="CRC"):
        read_groups(path)


def test_a_line_of_the_version_before_is_read() -> None:
    exported = next(rollout_samples(rollout(turns=[turn("a"), turn("b", "a")]), "whole"))
    steps = [{"step": 1, "turn_id": "a", "reward": 0.5}]
    fields = {**member(0, samples=[])._asdict(), "samples": [exported.to_wire()], "steps": steps}
    read = group_from_line(orjson.dumps({**group(group_id=4, size=1)._asdict(), "members": [fields]}))
    expected = group(member(0, samples=[member_sample(exported)], steps=(StepCredit(1, "a", 0.5),)), group_id=4)
    assert as_lists(read) == as_lists(expected)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_can_not_say_is_refused(number: float, tmp_path: Path) -> None:
    stepped = member(0, steps=(StepCredit(1, "a", number),))
    by_name = (member(0, metrics={"close": number}), member(0, reward_components={"close": number}))
    for one in (member(0, number), *by_name, stepped):
        with pytest.raises(ValueError, match="not finite"):
            write_groups(tmp_path / "waiting.npz", [group(one)])
