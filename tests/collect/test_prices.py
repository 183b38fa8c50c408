"""Claims about costs: by the user's prices, of whole rollouts, absent where they are not known."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.collect import CollectionResult, EvalSettings, Plan
from paddock.collect.prices import TokenPrice, usd_text
from paddock.collect.recovery import read_failures, recover
from paddock.collect.report import plan_lines
from paddock.types import Usage

MakeCase = Callable[..., Plan]
RunPlan = Callable[..., Awaitable[CollectionResult]]
PRICES = {"scripted": {"input": 2.0, "cached_input": 0.5, "output": 10.0}}
NAMED = {"model": "scripted"}


def test_cached_tokens_have_a_price_of_their_own_and_are_paid_once() -> None:
    usage = Usage(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=100_000, reasoning_tokens=60_000)
    assert TokenPrice(input=2, cached_input=0.5, output=10).of(usage) == pytest.approx(1.2 + 0.2 + 1.0)
    assert TokenPrice(input=2, output=10).of(usage) == pytest.approx(2.0 + 1.0)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_more_cached_than_read_costs_no_less_than_all_of_it_cached(read: int, cached: int) -> None:
    price = TokenPrice(input=2, cached_input=0.5, output=10)
    assert price.of(Usage(input_tokens=read, cached_tokens=cached)) >= read * 0.5 / 1_000_000


@pytest.mark.parametrize("wrong", [{"input": -1, "output": 1}, {"input": 1}, {"input": 1, "output": 1, "cached": 1}])
def test_a_wrong_price_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=r"usd_per_million_tokens\.gpt"):
        EvalSettings.model_validate({"usd_per_million_tokens": {"gpt": wrong}})


async def test_rollouts_of_a_model_with_a_price_have_a_cost_where_their_lines_say_so(
    make_case: MakeCase, run_plan: RunPlan, tmp_path: Path
) -> None:
    given = {"model": {**NAMED, "fail_first": 1}, "usd_per_million_tokens": PRICES, "max_attempts": 2}
    done = await run_plan(make_case(3, **given))
    # 10 tokens in and 2 out each.
    each = pytest.approx(40e-6)
    (run,) = done.summary
    assert (run["cost_usd"], run["cost_usd_per_rollout"]) == (pytest.approx(120e-6), each)
    assert [result.cost_usd for result in recover(tmp_path / "run").verdicts] == [each] * 3
    (tmp_path / "run" / "index.jsonl").unlink()
    assert [result.cost_usd for result in recover(tmp_path / "run").verdicts] == [each] * 3
    (failed,) = read_failures(tmp_path / "run" / "failures.jsonl")
    assert failed.cost_usd is None, "its call was not counted"


@pytest.mark.parametrize("oracle", [False, True])
async def test_no_price_or_no_tokens_is_no_cost(
    make_case: MakeCase, run_plan: RunPlan, tmp_path: Path, oracle: bool
) -> None:
    prices = PRICES if oracle else {"other": PRICES["scripted"]}
    case = make_case(2, oracle=oracle, model=NAMED, usd_per_million_tokens=prices)
    lacks = [line for line in plan_lines(case, tmp_path).text if "(without a price)" in line]
    assert len(lacks) == (0 if oracle else 1)
    done = await run_plan(case)
    (run,) = done.summary
    assert "cost_usd" not in run
    assert [result.cost_usd for result in recover(tmp_path / "run").verdicts] == [None, None]


@pytest.mark.parametrize(("usd", "text"), [(0.0, "0.00 USD"), (0.00123456, "0.00123 USD"), (12.3456, "12.35 USD")])
def test_amounts_name_their_currency(usd: float, text: str) -> None:
    assert usd_text(usd) == text
