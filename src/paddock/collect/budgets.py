"""What a way of working reaches within a budget of tokens, turns, time or money: as if each rollout had been cut there.

Share   of a row: its rollouts that pass and cost no more than the budget, of all its rollouts with a verdict; the mean
        over rows. Without a bound it is the pass rate.
Budgets the quartiles of what all compared rollouts cost, so that every arm is looked at under the same ones.
Law     a rollout that passes late counts as one that does not: what it would have done under the budget is not known.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import quantiles
from typing import Literal, NamedTuple, get_args

from paddock.collect.results import RolloutResult
from paddock.collect.statistics import PASSED
from paddock.types.step_rewards import OUTCOME_REWARD

CostKind = Literal["output tokens", "turns", "seconds", "USD"]


class VerdictCost(NamedTuple):
    """What one rollout with a verdict cost, and whether it passes."""

    passes: bool
    costs: Mapping[CostKind, float]
    """Without a kind that is not known of it."""


class BudgetRow(NamedTuple):
    """The shares of some arms under one budget."""

    kind: CostKind
    budget: float
    shares: tuple[float, ...]


def cost_of(result: RolloutResult) -> VerdictCost:
    """The cost of a rollout that has a reward."""
    assert result.reward is not None
    passes = result.metrics.get(OUTCOME_REWARD, result.reward) >= PASSED
    costs: dict[CostKind, float] = {
        "output tokens": result.usage.output_tokens,
        "turns": result.turns,
        "seconds": result.timing.total_s,
    }
    if result.cost_usd is not None:
        costs["USD"] = result.cost_usd
    return VerdictCost(passes, costs)


def share_within(rows: Iterable[Sequence[VerdictCost]], kind: CostKind, budget: float) -> float:
    """The mean over rows of the share of rollouts that pass within a budget. There is a row, and none is empty."""
    shares = [sum(one.passes and one.costs[kind] <= budget for one in row) / len(row) for row in rows]
    return sum(shares) / len(shares)


def budget_table(arms: Sequence[Mapping[str, Sequence[VerdictCost]]]) -> list[BudgetRow]:
    """The shares of arms, each given by row, at the quartiles of every cost that differs between rollouts."""
    table = []
    for kind in get_args(CostKind):
        known = [one.costs.get(kind) for arm in arms for row in arm.values() for one in row]
        costs = sorted(cost for cost in known if cost is not None)
        if len(costs) < len(known):
            continue  # what is not known of some can't be held against the others
        if costs[0] == costs[-1]:
            continue  # nobody counted it, or it decides nothing
        budgets = sorted({*quantiles(costs, n=4, method="inclusive"), costs[-1]})
        table += [
            BudgetRow(kind, budget, tuple(share_within(arm.values(), kind, budget) for arm in arms))
            for budget in budgets
        ]
    return table
