"""Claims about groups: who is run anew, and when a group is given up."""

import pytest

from paddock.training.core.groups import missing_members, repair, with_rerolls
from paddock.training.core.settings import GroupSettings
from paddock.training.core.testing import FAILED_OUTCOMES, group, member

WHOLE = group(member(0), member(1, 0.0))


def test_run_anew_is_who_is_not_there_or_failed_for_no_fault_of_its_own() -> None:
    members = [member(nth, None, outcome=outcome) for nth, outcome in enumerate(FAILED_OUTCOMES)]
    again = [nth for nth, outcome in enumerate(FAILED_OUTCOMES) if outcome in ("infra", "verifier")]
    assert missing_members(group(*members, size=len(FAILED_OUTCOMES) + 2)) == [
        *again,
        len(FAILED_OUTCOMES),
        len(FAILED_OUTCOMES) + 1,
    ]
    assert missing_members(WHOLE) == []


def test_rerolled_members_take_their_places() -> None:
    found = with_rerolls(group(member(0), member(2, None), size=4), [member(3), member(2, 0.5)])
    assert [(one.nth, one.reward) for one in found.members] == [(0, 1.0), (2, 0.5), (3, 1.0)]
    assert missing_members(found) == [1]


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
