"""Claims about what forging pays: `docs/security.md`'s formulas, exactly and by coins that are thrown."""

import random

import pytest

from paddock.resources_servers.swe.grading import Grade, Reason
from paddock.resources_servers.swe.server import SweConfig, verdict

CHANCES = [nth / 200 for nth in range(1, 201)]
PAID = verdict(Grade("resolved", ""), b"", SweConfig()).reward
COST = -verdict(Grade("tests_bent", ""), b"", SweConfig()).reward


def pay_of_each(p: float, k: int, c: float) -> float:
    """Every patch is audited k times, whatever its run says."""
    unseen = (1 - p) ** k
    return p * unseen - c * (1 - unseen)


def pay_of_passing(p: float, k: int, c: float) -> float:
    """Only a patch whose run passes is audited."""
    unseen = (1 - p) ** k
    return p * (unseen - c * (1 - unseen))


def pay_where_two_convict(p: float, c: float) -> float:
    """A patch whose run passes is audited: one run that sees nothing acquits, else the first two that agree decide."""
    return p * ((1 - p) + p * (1 - p) ** 2 - c * p * (1 - (1 - p) ** 2))


def thrown(p: float, k: int, chance: random.Random, *, each: bool) -> float:
    """The reward of one grading of code that forges by a coin per run; `each`: it is audited whatever its run says."""
    passes = chance.random() < p
    audited = [chance.random() < p for _ in range(k)] if each or passes else []
    reason: Reason = "tests_bent" if any(audited) else "resolved" if passes else "tests_fail"
    return verdict(Grade(reason, ""), b"", SweConfig()).reward


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("c", [COST, 1.5, 4.0])
def test_where_each_patch_is_audited_no_chance_of_forging_is_worth_it(k: int, c: float) -> None:
    assert PAID == 1.0
    assert COST >= 1.0
    assert all(pay_of_each(p, k, c) < 0 for p in CHANCES)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("c", [COST, 4.0])
def test_where_passing_ones_alone_are_it_is_worth_it_only_below_a_chance(k: int, c: float) -> None:
    for p in CHANCES:
        margin = (1 - p) ** k - c / (1 + c)
        if abs(margin) > 1e-9:
            assert (pay_of_passing(p, k, c) < 0) == (margin < 0), p
    if k == 1:
        assert max(pay_of_passing(p, k, c) for p in CHANCES) <= 1 / (4 * (1 + c)) + 1e-12


def test_what_the_grader_leaves_to_a_coin_is_what_the_page_says() -> None:
    pays = {p: pay_where_two_convict(p, COST) for p in CHANCES}
    assert round(max(pays.values()), 2) == 0.21
    assert all(pay < 0 for p, pay in pays.items() if p >= 0.6)


@pytest.mark.parametrize("p", [0.25, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("k", [1, 3])
def test_coins_that_are_thrown_come_to_what_the_formulas_say(p: float, k: int) -> None:
    n = 4000
    for each, expected in ((True, pay_of_each(p, k, COST)), (False, pay_of_passing(p, k, COST))):
        chance = random.Random(f"{p} {k} {each}")
        mean = sum(thrown(p, k, chance, each=each) for _ in range(n)) / n
        assert mean == pytest.approx(expected, abs=0.06)
        assert mean < 0 or not each
