"""Claims about dynamic sampling in a whole loop: groups without advantage fill no step, within ages and the bound."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError
from tests.training.grpo.scripted_loop import PROMPTS, STEPS, LoopRun, settings

from paddock.training.core.records import Member
from paddock.training.core.settings import AgePolicyName, GroupSettings
from paddock.training.grpo.config import TrainConfig
from paddock.training.grpo.roles import GroupJob


def alike(which: Callable[[int], bool]) -> Callable[[GroupJob, int, Member], Member]:
    """Rewards that are all 1 in groups of rows for which it says so, else 0 and 1."""
    return lambda work, nth, member: member._replace(reward=1.0) if which(work.row) else member


def run(which: Callable[[int], bool], age: int = 0, policy: AgePolicyName = "target_step", **known: Any) -> LoopRun:
    given = settings(age, groups=GroupSettings(age_policy=policy), **{"use_dynamic_sampling": True, **known})
    one = LoopRun(given, changed=alike(which), seconds=lambda work: 1.0 + work.id % 3)
    assert one.run().steps == STEPS
    return one


@pytest.mark.parametrize("policy", ["target_step", "accept_late", "cancel"])
@pytest.mark.parametrize("age", [0, 1, 3])
def test_a_step_is_filled_with_groups_that_teach(age: int, policy: AgePolicyName) -> None:
    one = run(lambda row: row % 3 == 0, age, policy)
    groups = [group for batch in one.policy.batches for group in batch.groups]
    assert len(groups) == STEPS * PROMPTS
    assert all(group.row % 3 for group in groups)
    skipped = [lost for told in one.told for lost in told.lost if lost.why == "no_advantage"]
    assert skipped
    assert {lost.row % 3 for lost in skipped} == {0}
    assert not any(lost.again for lost in skipped), "a row without advantage comes again in its next epoch"
    assert one.told[-1].metrics["buffer/lost/no_advantage"] == len(skipped)
    assert policy == "accept_late" or max(one.ages()) <= age


def test_a_step_is_bounded_and_then_takes_what_there_is() -> None:
    one = run(lambda row: True, dynamic_sampling_max_gen_batches=3)
    assert one.told[-1].metrics["buffer/lost/no_advantage"] == STEPS * 2 * PROMPTS
    assert {told.metrics["train/dynamic_sampling_num_gen_batches"] for told in one.told} == {3.0}
    assert {told.metrics["train/groups_alike_rate"] for told in one.told} == {1.0}


def test_the_reward_of_all_is_told_beside_that_of_what_is_trained_on() -> None:
    one = run(lambda row: row % 2 == 0)
    assert {told.metrics["train/total_reward/mean"] for told in one.told} == {0.5}
    n_skipped = one.told[-1].metrics["buffer/lost/no_advantage"]
    all_means = [told.metrics["train/unfiltered_reward/mean"] for told in one.told]
    weights = [told.metrics["train/dynamic_sampling_num_gen_batches"] * PROMPTS for told in one.told]
    total = sum(mean * weight for mean, weight in zip(all_means, weights, strict=True))
    assert total == pytest.approx(n_skipped * 1.0 + STEPS * PROMPTS * 0.5)


def test_without_it_every_group_is_trained_on() -> None:
    one = run(lambda row: True, use_dynamic_sampling=False)
    assert one.told[-1].metrics["buffer/lost/no_advantage"] == 0
    assert not any("unfiltered" in name for name in one.told[-1].metrics)


def test_rows_that_teach_nothing_end_a_run_with_their_epochs() -> None:
    one = LoopRun(settings(0, n_rows=20, use_dynamic_sampling=True), changed=alike(lambda row: row < 15))
    ended = one.run()
    assert (ended.why, ended.steps, ended.lost["no_advantage"]) == ("rows", 2, 15)


def test_it_does_not_go_with_what_learns_from_equal_rewards() -> None:
    policy = {"model_name": "m", "megatron_cfg": {"enabled": False}}
    data = {"train": {"data_path": "rows.jsonl"}}
    with pytest.raises(ValidationError, match="use_dynamic_sampling"):
        TrainConfig.model_validate(
            {"policy": policy, "data": data, "grpo": {"use_dynamic_sampling": True}, "value": {"enabled": True}}
        )
