"""Claims about groups: when one is given up."""

import pytest

from paddock.training.core.groups import repair
from paddock.training.core.settings import GroupSettings
from paddock.training.core.testing import group, member

WHOLE = group(member(0), member(1, 0.0))


@pytest.mark.parametrize(
    ("rewards", "kept"), [([1, 0, None, None], True), ([1, None], False), ([None], False), ([], False)]
)
def test_left_one_out_a_group_needs_two(rewards: list[float | None], kept: bool) -> None:
    some = group(*(member(nth, reward) for nth, reward in enumerate(rewards)), size=4)
    assert repair(some, GroupSettings()) == (some if kept else None)


def test_it_may_need_more() -> None:
    assert repair(WHOLE, GroupSettings(min_members=3)) is None


def test_drop_wants_all() -> None:
    settings = GroupSettings(repair="drop")
    assert repair(WHOLE, settings) == WHOLE
    assert repair(group(member(0), member(1), member(2, None)), settings) is None
    assert repair(group(member(0), member(1), size=3), settings) is None
