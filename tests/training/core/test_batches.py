"""Claims about batches: which tokens are trained on, with which advantage, and why the others are not."""

import math
from typing import Any

import numpy as np
import pytest

from paddock.training.core.records import Flaw, MaskEntry, VersionSpan
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.core.testing import FAILED_OUTCOMES, as_lists, batch, group, member, sample

OTHER = -(1 / 3) / (math.sqrt(1 / 3) + 1e-6)
BOTH = (Flaw("a", "invalid_tool_call"), Flaw("b", "malformed_thinking"))
TWO_TURNS = (("a", 1, 3, "0"), ("b", 4, 6, "1"))


def test_a_group_of_one_gold_and_three_failing() -> None:
    found = batch(group(member(0, 1.0), *(member(nth, 0.0) for nth in (1, 2, 3)), group_id=7))
    assert [(row.group, row.member, row.sample, row.reward) for row in found.rows] == [
        (7, nth, 0, reward) for nth, reward in enumerate((1.0, 0.0, 0.0, 0.0))
    ]
    for row, advantage in zip(found.rows, (1.0, OTHER, OTHER, OTHER), strict=True):
        assert row.ids.tolist() == [0, 1, 2, 3, 4, 5]
        assert row.loss_mask.tolist() == [0, 0, 1, 1, 0, 0]
        assert row.advantages == pytest.approx([0, 0, advantage, advantage, 0, 0])
        assert row.generation_log_probs.tolist() == [0, 0, -0.25, -0.25, 0, 0]
        assert (row.oldest, row.newest, row.versions) == (0, 0, (VersionSpan(2, 4, 0),))
    assert (found.masked, found.dropped, found.tokens) == ([], [], 8)


def test_per_token_fields_are_arrays_of_the_smallest_types() -> None:
    (row, _) = batch(group(member(0), member(1, 0.0))).rows
    arrays = (row.ids, row.loss_mask, row.generation_log_probs, row.advantages)
    assert [array.dtype for array in arrays] == ["int32", "bool", "float32", "float32"]
    assert {array.shape for array in arrays} == {(6,)}


def test_failed_members_are_masked_by_their_outcome_and_change_nothing() -> None:
    failed = [member(nth, None, outcome=outcome) for nth, outcome in enumerate(FAILED_OUTCOMES, start=4)]
    some = [member(0, 1.0), *(member(nth, 0.0) for nth in (1, 2, 3))]
    found, alone = batch(group(*some, *failed)), batch(group(*some))
    assert as_lists(found.rows) == as_lists(alone.rows)
    assert found.masked == [MaskEntry(0, nth, None, outcome) for nth, outcome in enumerate(FAILED_OUTCOMES, start=4)]


def test_a_group_with_too_few_verdicts_is_dropped_and_told() -> None:
    found = batch(group(member(0), member(1, None), group_id=3), group(member(0), member(1, 0.0), group_id=4))
    assert found.dropped == [3]
    assert {row.group for row in found.rows} == {4}
    assert found.masked == [MaskEntry(3, 1, None, "infra")]
    assert [one.id for one in found.groups] == [3, 4]


def test_a_leak_with_a_penalty_is_compared_and_trained_on() -> None:
    found = batch(group(member(0, 1.0), member(1, -1.0, outcome="leak"), member(2, 0.0)))
    assert [row.reward for row in found.rows] == [1.0, -1.0, 0.0]
    assert found.masked == []


def test_not_exact_the_verdict_is_in_the_baseline_and_nothing_is_trained_on() -> None:
    found = batch(group(member(0, 1.0, samples=[]), member(1, 0.0), member(2, 0.0)))
    assert found.masked == [MaskEntry(0, 0, None, "not_exact")]
    assert [row.member for row in found.rows] == [1, 2]
    assert all(row.advantages[2] < 0 for row in found.rows)


@pytest.mark.parametrize("filtering", [True, False])
def test_overlong_filtering_goes_by_what_was_cut_and_keeps_the_verdict(filtering: bool) -> None:
    cut = member(0, 0.0, outcome="truncated", samples=[sample(cut=True)])
    found = batch(group(cut, member(1, 1.0), member(2, 1.0)), grpo=GrpoSettings(overlong_filtering=filtering))
    assert [row.member for row in found.rows] == ([1, 2] if filtering else [0, 1, 2])
    assert found.masked == ([MaskEntry(0, 0, 0, "overlong")] if filtering else [])
    assert found.rows[-1].advantages[2] > 0


def test_a_sample_that_is_longer_than_the_trainer_takes() -> None:
    found = batch(group(member(0, samples=[sample(length=9)]), member(1, 0.0)), max_length=8)
    assert found.masked == [MaskEntry(0, 0, 0, "too_long")]
    assert [row.member for row in found.rows] == [1]


@pytest.mark.parametrize("version", ["5", "default", None, "-1", "1.0"])
def test_tokens_of_weights_that_nobody_sent_are_masked(version: str | None) -> None:
    mixed = sample([("a", 1, 3, version), ("b", 4, 6, "1")])
    found = batch(group(member(0, samples=[mixed]), member(1, 0.0, samples=[sample([("a", 1, 3, version)])])))
    (row,) = found.rows
    assert row.loss_mask.tolist() == [0, 0, 0, 0, 1, 1]
    assert row.generation_log_probs.tolist() == [0, 0, 0, 0, -0.25, -0.25]
    assert (row.oldest, row.newest) == (1, 1)
    assert found.masked == [MaskEntry(0, 0, 0, "unknown_weights"), MaskEntry(0, 1, 0, "unknown_weights")]


def test_a_row_knows_which_weights_sampled_which_of_its_tokens() -> None:
    several = sample([("a", 1, 2, "2"), ("a", 2, 3, "0"), ("b", 4, 6, "1")])
    found = batch(group(member(0, samples=[several]), member(1, 0.0)))
    assert found.rows[0].versions == (VersionSpan(1, 2, 2), VersionSpan(2, 3, 0), VersionSpan(4, 6, 1))
    assert (found.rows[0].oldest, found.rows[0].newest) == (0, 2)


def test_what_is_context_here_is_not_trained_on() -> None:
    found = batch(group(member(0, samples=[sample(trained=False)]), member(1, 0.0)))
    assert [row.member for row in found.rows] == [1]
    assert found.masked == [MaskEntry(0, 0, 0, "not_exact")]


def test_the_first_token_has_nothing_before_it() -> None:
    found = batch(group(member(0, samples=[sample([("a", 0, 2, "0")])]), member(1, 0.0)))
    assert found.rows[0].loss_mask.tolist() == [0, 1, 0, 0, 0, 0]
    assert found.rows[0].versions == (VersionSpan(1, 2, 0),)


def test_samples_of_one_rollout_share_its_advantage() -> None:
    parts = [sample([("a", 2, 4, "0")]), sample([("b", 3, 6, "0")], index=1)]
    found = batch(group(member(0, 1.0, samples=parts), member(1, 0.0)))
    assert [(row.member, row.sample, max(row.advantages)) for row in found.rows[:2]] == [(0, 0, 1.0), (0, 1, 1.0)]


FLAWS: list[tuple[dict[str, Any], list[float]]] = [
    ({}, [1, 1, 1, 1]),
    ({"invalid_tool_call_advantage": -5.0}, [-5, -5, 1, 1]),
    ({"malformed_thinking_advantage": -3.0}, [1, 1, -3, -3]),
    ({"invalid_tool_call_advantage": -5.0, "malformed_thinking_advantage": -3.0}, [-5, -5, -3, -3]),
    ({"invalid_tool_call_advantage": -5.0, "advantage_clip_low": -2.0}, [-2, -2, 1, 1]),
    ({"invalid_tool_call_advantage": -5.0, "penalize_invalid_tool_call": False}, [1, 1, 1, 1]),
    ({"malformed_thinking_advantage": -3.0, "penalize_malformed_thinking": False}, [1, 1, 1, 1]),
]


@pytest.mark.parametrize(("keys", "expected"), FLAWS)
def test_flawed_turns_have_the_advantage_of_the_config(keys: dict[str, Any], expected: list[float]) -> None:
    flawed = member(0, 1.0, samples=[sample(TWO_TURNS)], flaws=BOTH)
    found = batch(group(flawed, member(1, 0.0)), grpo=GrpoSettings(**keys))
    row = found.rows[0]
    assert row.advantages[row.loss_mask].tolist() == expected
    assert found.masked == []
    assert found.rows[1].advantages[2] == -1.0


def test_an_invalid_call_goes_before_malformed_thinking() -> None:
    flaws = (Flaw("a", "malformed_thinking"), Flaw("a", "invalid_tool_call"))
    settings = GrpoSettings(invalid_tool_call_advantage=-5.0, malformed_thinking_advantage=-3.0)
    found = batch(group(member(0, flaws=flaws), member(1, 0.0)), grpo=settings)
    assert found.rows[0].advantages[2] == -5.0


@pytest.mark.parametrize("penalised", [True, False])
def test_turns_with_an_invalid_call_are_masked_where_the_config_says_so(penalised: bool) -> None:
    settings = GrpoSettings(
        invalid_tool_call_strategy="mask", invalid_tool_call_advantage=-5.0, penalize_invalid_tool_call=penalised
    )
    flawed = member(0, 1.0, samples=[sample(TWO_TURNS)], flaws=BOTH)
    found = batch(group(flawed, member(1, 0.0)), grpo=settings)
    assert found.rows[0].loss_mask.tolist() == ([0, 0, 0, 0, 1, 1] if penalised else [0, 1, 1, 0, 1, 1])
    assert found.masked == ([MaskEntry(0, 0, 0, "invalid_tool_call")] if penalised else [])
    assert min(found.rows[0].advantages) == 0.0


def test_no_settings_of_a_group_reach_another() -> None:
    groups = [group(member(0, 1.0), member(1, 0.0), group_id=nth) for nth in range(2)]
    found = batch(*groups, settings=GroupSettings(repair="drop"))
    rows = as_lists([row._replace(group=0) for row in found.rows])
    assert rows[:2] == rows[2:]


def test_bounds_hold_for_what_reinforce_plus_plus_makes_of_rewards_and_not_for_these() -> None:
    estimator = {"name": "reinforce_plus_plus", "minus_baseline": False}
    grpo = GrpoSettings.model_validate({"adv_estimator": estimator, "advantage_clip_high": 1.0})
    found = batch(group(member(0, 5.0), member(1, 0.0)), grpo=grpo)
    assert [row.advantages.max() for row in found.rows] == [5.0, 0.0]


def test_the_batch_s_deviation_is_that_of_all_its_rewards() -> None:
    grpo = GrpoSettings.model_validate({"adv_estimator": {"normalize_over": "batch"}})
    found = batch(group(member(0, 1.0), member(1, 0.0)), group(member(0, 5.0), member(1, 3.0), group_id=1), grpo=grpo)
    std = math.sqrt(((1 - 2.25) ** 2 + 2.25**2 + 2.75**2 + 0.75**2) / 3) + 1e-6
    assert [row.advantages[2].item() for row in found.rows] == pytest.approx([1 / std, -1 / std, 2 / std, -2 / std])


def test_where_experts_are_replayed_a_sample_without_is_masked() -> None:
    """And where they are not, none are sent to the policy."""
    experts = np.zeros((5, 2, 2), np.int8)
    with_experts = sample()._replace(routed_experts=experts)
    members = [member(0, 1.0, samples=[with_experts]), member(1, 0.0, samples=[sample()])]
    made = batch(group(*members), replays_experts=True)
    assert [(row.member, row.routed_experts is experts) for row in made.rows] == [(0, True)]
    assert made.masked == [MaskEntry(0, 1, 0, "no_routed_experts")]
    assert [row.routed_experts for row in batch(group(*members)).rows] == [None, None]
