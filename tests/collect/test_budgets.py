"""Claims about what arms reach within budgets."""

from hypothesis import given
from hypothesis import strategies as st

from paddock.collect.budgets import BudgetRow, VerdictCost, budget_table, cost_of, share_within
from paddock.collect.results import RolloutResult
from paddock.types import Timing, Usage
from paddock.types.step_rewards import OUTCOME_REWARD


def cost(passes: bool, turns: float) -> VerdictCost:
    return VerdictCost(passes, {"turns": turns, "output tokens": 7.0, "seconds": 0.0})


ROWS = st.lists(
    st.lists(st.builds(cost, st.booleans(), st.integers(0, 50).map(float)), min_size=1, max_size=4),
    min_size=1,
    max_size=6,
)


def test_a_share_is_a_mean_over_rows() -> None:
    rows = [[cost(True, 3), cost(True, 9)], [cost(False, 1)], [cost(True, 5)]]
    assert [share_within(rows, "turns", budget) for budget in (2, 3, 5, 9)] == [0, 0.5 / 3, 1.5 / 3, 2 / 3]


@given(ROWS, ROWS)
def test_more_of_a_budget_is_never_worth_less_and_all_of_it_is_the_pass_rate(
    one: list[list[VerdictCost]], other: list[list[VerdictCost]]
) -> None:
    arms = [{str(nth): row for nth, row in enumerate(arm)} for arm in (one, other)]
    table = budget_table(arms)
    assert {row.kind for row in table} <= {"turns"}, "what does not differ decides nothing"
    for nth, arm in enumerate((one, other)):
        shares = [row.shares[nth] for row in table]
        assert shares == sorted(shares)
        if shares:
            assert shares[-1] == sum(sum(each.passes for each in row) / len(row) for row in arm) / len(arm)


def test_a_rollout_passes_by_what_its_environment_says_where_steps_are_rewarded_too() -> None:
    result = RolloutResult(
        group_id=0,
        member=0,
        agent="a",
        outcome="completed",
        reward=0.4,
        turns=3,
        usage=Usage(output_tokens=12),
        timing=Timing(total_s=2.5),
    )
    assert cost_of(result) == VerdictCost(False, {"output tokens": 12, "turns": 3, "seconds": 2.5})
    assert cost_of(result.model_copy(update={"metrics": {OUTCOME_REWARD: 1.0}})).passes
    assert cost_of(result.model_copy(update={"cost_usd": 0.5})).costs["USD"] == 0.5


def test_what_is_not_known_of_a_rollout_is_no_budget() -> None:
    priced = [VerdictCost(True, {"turns": 1.0, "output tokens": 1.0, "seconds": 1.0, "USD": usd}) for usd in (1.0, 3.0)]
    unpriced = VerdictCost(True, {"turns": 1.0, "output tokens": 1.0, "seconds": 1.0})
    assert {row.kind for row in budget_table([{"x": priced}])} == {"USD"}
    assert budget_table([{"x": priced}, {"x": [unpriced]}]) == []


def test_two_arms_are_looked_at_under_the_same_budgets() -> None:
    arms = [{"x": [cost(True, 2)]}, {"x": [cost(True, 10)]}]
    assert budget_table(arms)[0] == BudgetRow("turns", 4.0, (1.0, 0.0))
