"""Claims about GDPO: each part of a reward is compared with the group by itself."""

import math
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import ConfigError
from paddock.training.core.advantages import group_advantages
from paddock.training.core.gdpo import gdpo_advantages
from paddock.training.core.groups import has_advantage
from paddock.training.core.records import Group, Member
from paddock.training.core.settings import GrpoSettings
from paddock.training.core.testing import batch, group, member

PARTS = st.fixed_dictionaries({"correct": st.sampled_from([0.0, 1.0]), "form": st.sampled_from([0.0, 0.2, 0.5])})


def settings(**estimator: Any) -> GrpoSettings:
    own = {"name": "gdpo", **estimator}
    return GrpoSettings.model_validate({"use_leave_one_out_baseline": False, "adv_estimator": own})


def scored(nth: int, parts: dict[str, float]) -> Member:
    return member(nth, math.fsum(parts.values()), reward_components=parts)


def of_parts(*each: dict[str, float]) -> Group:
    return group(*(scored(nth, parts) for nth, parts in enumerate(each)))


@given(st.lists(st.lists(PARTS, min_size=2, max_size=5), min_size=1, max_size=4))
def test_as_it_is_in_the_paper(groups: list[list[dict[str, float]]]) -> None:
    found = gdpo_advantages([of_parts(*each) for each in groups], settings(reward_weights={"form": 0.5}))
    sums = []
    for each in groups:
        for parts in each:
            total = 0.0
            for name, weight in (("correct", 1.0), ("form", 0.5)):
                values = [one[name] for one in each]
                deviation = stdev(values)
                apart = parts[name] - fmean(values)
                total += weight * (apart / (deviation + 1e-6) if deviation > 1e-9 else 0.0)
            sums.append(total)
    deviation = stdev(sums)
    expected = [(value - fmean(sums)) / deviation if deviation > 1e-9 else 0.0 for value in sums]
    assert [value for of_group in found for value in of_group] == pytest.approx(expected, abs=1e-4)


def test_equal_sums_of_other_parts_teach() -> None:
    alike = of_parts({"correct": 1.0, "form": 0.0}, {"correct": 0.0, "form": 1.0}, {"correct": 1.0, "form": 0.0})
    weighed = settings(reward_weights={"correct": 1.0, "form": 0.25})
    (found,) = gdpo_advantages([alike], weighed)
    assert found[0] is not None
    assert found[1] is not None
    assert found[1] < 0 < found[0]
    assert has_advantage(alike, weighed)
    assert not has_advantage(alike, GrpoSettings())
    assert not has_advantage(of_parts({"a": 1.0, "b": 0.5}, {"a": 1.0, "b": 0.5}), weighed)
    assert not batch(alike).rows[0].advantages.any()
    assert batch(alike, grpo=weighed).rows[0].advantages.any()


def test_what_parts_do_not_sum_to_is_a_part() -> None:
    """A leak's penalty is compared with what others have there: nothing."""
    right, wrong, leak = scored(0, {"correct": 1.0}), scored(1, {"correct": 0.0}), member(2, -1.0, outcome="leak")
    (found,) = gdpo_advantages([group(right, wrong, leak)], settings())
    assert found[0] is not None
    assert found[1] is not None
    assert found[2] is not None
    assert found[0] > found[1] > found[2]


def test_rewards_without_parts_are_compared_as_they_are() -> None:
    plain = group(member(0, 1.0), member(1, 0.0), member(2, None))
    (found,) = gdpo_advantages([plain], settings(reward_weights=[1.0, 2.0]))
    assert found == [pytest.approx(math.sqrt(0.5)), pytest.approx(-math.sqrt(0.5)), None]


def test_groups_that_are_alike_keep_no_advantage_beside_others() -> None:
    alike, other = of_parts({"a": 0.1, "b": 0.7}, {"a": 0.1, "b": 0.7}), of_parts({"a": 0.3, "b": 0.1}, {"a": 0.1})
    first, second = gdpo_advantages([alike, other], settings())
    assert first == [0.0, 0.0]
    assert all(second)


def test_rounding_teaches_nothing_where_a_step_has_nothing_else() -> None:
    apart = of_parts({"a": 0.1 + 0.2, "b": 1.0}, {"a": 0.3, "b": 1.0}, {"a": 0.3, "b": 1.0})
    assert gdpo_advantages([apart], settings()) == [[0.0, 0.0, 0.0]]
    assert not has_advantage(apart, settings())


def test_advantages_are_bounded_last() -> None:
    bounded = settings().model_copy(update={"advantage_clip_low": -0.25})
    assert gdpo_advantages([of_parts({"a": 1.0}, {"a": 0.0})], bounded)[0][1] == -0.25


def test_a_list_of_weights_has_one_for_each_part() -> None:
    with pytest.raises(ConfigError, match=r"1 weights for the 2 parts of rewards here \(correct, form\)"):
        gdpo_advantages([of_parts({"form": 1.0, "correct": 0.0}, {"form": 0.0})], settings(reward_weights=[1.0]))


def test_a_trainer_of_one_group_at_a_time_refuses_it() -> None:
    with pytest.raises(ConfigError, match="GDPO"):
        group_advantages([1.0, 0.0], settings())


def test_nothing_comes_of_nothing() -> None:
    assert gdpo_advantages([], settings()) == []
    assert gdpo_advantages([group(member(0, None))], settings()) == [[None]]
