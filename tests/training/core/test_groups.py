"""Claims about groups: when one is given up, and when one teaches."""

import pytest
from pydantic import ValidationError

from paddock.training.core.groups import has_advantage, repair
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.core.testing import group, member, sample

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


def test_a_group_that_is_alike_but_for_its_lengths_teaches_where_length_costs() -> None:
    short, long = (
        member(nth, samples=(sample((("a", 1, 1 + n_tokens, "0"),), length=2 + n_tokens),))
        for nth, n_tokens in enumerate((4, 400))
    )
    costly = {"reward_shaping": {"enabled": True, "token_penalty_per_1k": 1.0}}
    assert not has_advantage(group(short, long), GrpoSettings())
    assert has_advantage(group(short, long), GrpoSettings.model_validate(costly))


def test_reinforce_without_a_baseline_learns_from_groups_that_are_alike() -> None:
    estimator = {"name": "reinforce_plus_plus", "minus_baseline": False}
    with pytest.raises(ValidationError, match="minus_baseline"):
        GrpoSettings.model_validate({"use_dynamic_sampling": True, "adv_estimator": estimator})
