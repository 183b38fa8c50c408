"""Claims about numbers: pass@k and intervals by hand, and failures in no mean."""

from math import sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.collect.endings import Ending
from paddock.collect.statistics import RowScore, interval95, mean, pass_table
from paddock.collect.tally import Board, Pace
from paddock.types import OUTCOMES, REWARDED, Outcome


def row(*rewards: float) -> RowScore:
    score = RowScore()
    for reward in rewards:
        score = score.plus(reward)
    return score


def test_pass_at_k_agrees_with_counting_by_hand() -> None:
    # Row 1 passes 1 of 4: a pair of its six holds the pass three times. Row 2 passes always, row 3 never.
    table = pass_table([row(1, 0, 0, 0), row(1, 1, 1, 1), row(0, 0, 0, 0.9)])
    assert table == pytest.approx({"1": (1 / 4 + 1) / 3, "2": (3 / 6 + 1) / 3, "4": 2 / 3})


def test_pass_at_k_is_over_the_rows_that_have_k_rewards() -> None:
    assert pass_table([row(1, 0, 0), row(0)]) == pytest.approx({"1": 1 / 6, "2": 2 / 3, "3": 1.0})
    assert pass_table([]) == {}


def test_the_interval_of_rows_of_one_size_is_the_normal_one_over_their_means() -> None:
    means = [0.0, 0.5, 1.0, 1.0]
    centre = sum(means) / 4
    deviation = sqrt(sum((value - centre) ** 2 for value in means) / 3)
    found = interval95([row(0, 0), row(1, 0), row(1, 1), row(1, 1)])
    assert found is not None
    assert found.high - centre == pytest.approx(1.959964 * deviation / sqrt(4), rel=1e-6)
    assert centre - found.low == pytest.approx(found.high - centre)


def test_repeating_a_row_does_not_narrow_the_interval() -> None:
    once = interval95([row(0), row(1), row(1)])
    many = interval95([row(*[0] * 8), row(*[1] * 8), row(*[1] * 8)])
    assert once == pytest.approx(many)


def test_one_row_has_no_interval() -> None:
    assert interval95([row(0, 1, 1)]) is None
    assert interval95([row(0, 1), RowScore()]) is None
    assert mean([]) is None


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(OUTCOMES), st.sampled_from([0.0, 0.25, 1.0])), max_size=60)
)
@settings(max_examples=60, deadline=None)
def test_means_are_of_verdicts_alone_whatever_fails_beside_them(drawn: list[tuple[int, Outcome, float]]) -> None:
    every, judged = Board(), Board()
    for member, (group, outcome, reward) in enumerate(drawn):
        given_reward = reward if outcome in REWARDED else None
        ending = Ending(group_id=group, member=member, agent="a", outcome=outcome, reward=given_reward)
        every.add(ending)
        if given_reward is not None:
            judged.add(ending)
    assert every.mean_reward == judged.mean_reward
    assert sum(every.outcomes.values()) == len(drawn)
    pace = Pace(1.0, 1)
    numbers = {key: value for run in every.summary({}, pace) for key, value in run.items()}
    for run in judged.summary({}, pace):
        for key in ("mean_reward", "reward_ci95", "pass_at_k", "turns", "tokens", "seconds", "metrics"):
            assert numbers[key] == run[key]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_ending_carries_a_reward_exactly_where_its_outcome_does(outcome: Outcome) -> None:
    wrong = None if outcome in REWARDED else 0.0
    with pytest.raises(ValueError, match="with reward"):
        Ending(group_id=0, member=0, agent="a", outcome=outcome, reward=wrong)
