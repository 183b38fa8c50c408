"""Claims about numbers: pass@k and intervals by hand, and failures in no mean."""

from math import sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.collect.results import RolloutResult
from paddock.collect.statistics import RowScore, effective_size, interval95, mean, pass_rate, pass_table, wilson95
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


@pytest.mark.parametrize(
    ("passed", "n", "low", "high"), [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)]
)
def test_single_rollouts_have_wilsons_interval(passed: int, n: int, low: float, high: float) -> None:
    found = pass_rate([row(1)] * passed + [row(0)] * (n - passed))
    assert found is not None
    assert found.value == pytest.approx(passed / n)
    assert found.ci95 == pytest.approx((low, high), abs=5e-5)


def test_members_that_agree_say_no_more_than_one_and_independent_ones_say_more() -> None:
    once = pass_rate([row(0), row(1), row(1), row(0)])
    assert pass_rate([row(*[0] * 8), row(*[1] * 8), row(*[1] * 8), row(*[0] * 8)]) == once
    mixed = pass_rate([row(0, 1, 0, 1)] * 4)
    assert once is not None
    assert mixed is not None
    assert mixed.ci95 == wilson95(0.5, 16)


def test_a_rate_of_all_or_nothing_has_an_interval_of_its_rows() -> None:
    found = pass_rate([row(1, 1, 1)] * 10)
    assert found is not None
    assert found.ci95 == pytest.approx((0.7225, 1.0), abs=5e-5)
    assert pass_rate([]) is None
    assert pass_rate([row(1, 0)]) == (0.5, None)


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=6), min_size=2, max_size=40))
@settings(deadline=None)
def test_the_interval_of_a_rate_holds_it_and_is_no_narrower_than_wilsons_of_all_rollouts(
    drawn: list[list[float]],
) -> None:
    rows = [row(*rewards) for rewards in drawn]
    found = pass_rate(rows)
    assert found is not None
    assert found.ci95 is not None
    assert 0 <= found.ci95.low <= found.value + 1e-9
    assert found.value - 1e-9 <= found.ci95.high <= 1
    most = sum(score.n for score in rows)
    assert 0 < effective_size([score.share for score in rows], most) <= most
    narrowest = wilson95(found.value, most)
    assert found.ci95.low <= narrowest.low + 1e-9
    assert found.ci95.high >= narrowest.high - 1e-9


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(OUTCOMES), st.sampled_from([0.0, 0.25, 1.0])), max_size=60)
)
@settings(max_examples=60, deadline=None)
def test_means_are_of_verdicts_alone_whatever_fails_beside_them(drawn: list[tuple[int, Outcome, float]]) -> None:
    every, judged = Board(), Board()
    for member, (group, outcome, reward) in enumerate(drawn):
        given_reward = reward if outcome in REWARDED else None
        result = RolloutResult(
            group_id=group,
            member=member,
            agent="a",
            row_name=f"row-{group}",
            outcome=outcome,
            reward=given_reward,
            reason="judged" if given_reward is not None else None,
            labels={"repo": f"repo-{group % 2}"},
            variant="odd" if member % 2 else "even",
            ended="finished",
            malformed={"bad_json": member % 3},
            turns=member,
        )
        every.add(result)
        if given_reward is not None:
            judged.add(result)
    assert every.mean_reward == judged.mean_reward
    assert sum(every.outcomes.values()) == len(drawn)
    pace = Pace(1.0, 1)
    numbers = {key: value for run in every.summary({}, pace) for key, value in run.items()}
    for run in judged.summary({}, pace):
        for key in run.keys() - {"outcomes", "n_rows", "n_rollouts"}:
            assert numbers[key] == run[key], key


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_ending_carries_a_reward_exactly_where_its_outcome_does(outcome: Outcome) -> None:
    wrong = None if outcome in REWARDED else 0.0
    with pytest.raises(ValueError, match="with reward"):
        RolloutResult(group_id=0, member=0, agent="a", outcome=outcome, reward=wrong)
