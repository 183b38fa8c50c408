"""Claims about what forging pays: `docs/security.md`'s formulas, exactly and by coins that are thrown."""

import pytest

from paddock.resources_servers.swe.grading import Grade
from paddock.resources_servers.swe.server import SweServerConfig, verdict

CHANCES = [nth / 200 for nth in range(1, 201)]
PAID = verdict(Grade("resolved", ""), b"", SweServerConfig()).reward
COST = -verdict(Grade("tests_forged", ""), b"", SweServerConfig()).reward


def pay_of_a_coin(p: float, c: float = COST) -> float:
    """A patch's run and its audit forge with chance p each."""
    unconvicted = p * p * (3 - 2 * p)  # two more forged runs come before two that are not
    return p * (1 - p) - c * (p * p + p * (1 - p) * (1 - unconvicted))


def pay_of_one_in(runs: int, c: float = COST) -> float:
    """Code that forges in just one of the runs that start together, whichever that is."""
    return 1 / runs - c * (1 - 1 / runs)


@pytest.mark.parametrize("c", [COST, 1.5, 4.0])
def test_no_chance_of_forging_is_worth_it(c: float) -> None:
    assert PAID == 1.0
    assert COST >= 1.0
    assert all(pay_of_a_coin(p, c) < 0 for p in CHANCES)


def test_runs_that_agree_among_themselves_which_of_them_forges_gain_nothing() -> None:
    assert pay_of_one_in(2) <= 0
    assert pay_of_one_in(3) < 0


def test_a_cost_below_one_is_not_enough() -> None:
    assert any(pay_of_a_coin(p, 0.9) > 0 for p in CHANCES)
