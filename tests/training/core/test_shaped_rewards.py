"""Claims about the reward that training sees: by hand, by name in metrics, and the environment's stays what it is."""

import math
from typing import Any

import pytest
from pydantic import ValidationError

from paddock.training.core.metrics import batch_metrics
from paddock.training.core.records import Member
from paddock.training.core.settings import GrpoSettings
from paddock.training.core.shaped_rewards import shaped
from paddock.training.core.testing import batch, group, member, sample

OVERLONG = {"overlong_buffer_length": 4, "overlong_buffer_penalty": 0.5, "max_response_length": 10}
TRAINING = {"normalize_rewards": False, "use_leave_one_out_baseline": False}


def long_member(n_tokens: int, nth: int = 0, reward: float = 1.0, **fields: Any) -> Member:
    spans = (("a", 1, 1 + n_tokens, "0"),)
    return member(nth, reward, samples=(sample(spans, length=2 + n_tokens),), **fields)


def grpo(shaping: dict[str, Any] | None = None, scaling: dict[str, Any] | None = None) -> GrpoSettings:
    blocks = {"reward_shaping": shaping, "reward_scaling": scaling}
    given = {name: {"enabled": True, **keys} for name, keys in blocks.items() if keys is not None}
    return GrpoSettings.model_validate({**TRAINING, **given})


@pytest.mark.parametrize(("n_tokens", "penalty"), [(1, 0.0), (6, 0.0), (7, 0.125), (8, 0.25), (10, 0.5), (30, 0.5)])
def test_the_overlong_penalty_grows_over_the_buffer_and_no_further(n_tokens: int, penalty: float) -> None:
    found = shaped(long_member(n_tokens), grpo(OVERLONG))
    assert found is not None
    assert found.reward == pytest.approx(1.0 - penalty)
    assert found.components == {"penalties": 0.0, "scaling": 0.0, "overlong": pytest.approx(-penalty)}


def test_turns_and_tokens_beyond_the_free_ones_cost() -> None:
    keys = {"turn_penalty": 0.1, "free_turns": 3, "token_penalty_per_1k": 2.0, "free_tokens": 10}
    found = shaped(long_member(60)._replace(turns=5), grpo(keys))
    assert found is not None
    assert found.components == pytest.approx({"penalties": 0.0, "scaling": 0.0, "turns": -0.2, "tokens": -0.1})
    few = shaped(long_member(2), grpo(keys))
    assert few is not None
    assert few.reward == 1.0


def test_a_reward_is_scaled_before_it_is_shaped() -> None:
    scaling = {"source_min": -1.0, "source_max": 1.0, "target_min": 0.0, "target_max": 4.0}
    settings = grpo({"stop_properly_penalty_coef": 0.25}, scaling)
    cut = shaped(long_member(2, reward=0.0, outcome="truncated"), settings)
    whole = shaped(long_member(2, reward=7.0), settings)
    assert cut is not None
    assert whole is not None
    assert cut.components == {"penalties": 0.0, "scaling": 2.0, "stop_properly": -1.5}
    assert (cut.reward, whole.reward) == (0.5, 4.0)


def test_a_forgery_is_no_better_for_being_truncated() -> None:
    cut = shaped(long_member(2, reward=-1.0, outcome="truncated"), grpo({"stop_properly_penalty_coef": 0.0}))
    assert cut is not None
    assert cut.reward == -1.0


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize(
    ("block", "key"),
    [
        *(("reward_scaling", key) for key in ("source_min", "source_max", "target_min", "target_max")),
        *(("reward_shaping", key) for key in ("turn_penalty", "token_penalty_per_1k", "overlong_buffer_penalty")),
    ],
)
def test_a_number_that_is_not_finite_makes_no_reward(block: str, key: str, number: float) -> None:
    with pytest.raises(ValidationError, match=key):
        GrpoSettings.model_validate({block: {key: number}})


def test_what_has_no_verdict_is_not_shaped() -> None:
    assert shaped(member(0, None), grpo({"turn_penalty": 1.0}, {"target_min": -1.0})) is None


def test_a_long_leak_pays_no_more_than_a_long_failure_with_the_same_reward() -> None:
    settings = grpo({"turn_penalty": 0.5, "free_turns": 2}, {"source_min": -1.0, "target_min": -8.0})
    leak = shaped(member(0, -1.0, outcome="leak")._replace(turns=6), settings)
    assert leak is not None
    assert leak.components == {"penalties": 0.0, "scaling": 0.0, "turns": -2.0}, "the penalty is not scaled"
    assert leak.reward == -3.0


def test_advantages_are_of_the_shaped_reward_and_metrics_name_both() -> None:
    found = batch(group(long_member(10), long_member(2, nth=1)), grpo=grpo(OVERLONG))
    assert [row.reward for row in found.rows] == [0.5, 1.0]
    assert [row.advantages[1].item() for row in found.rows] == pytest.approx([-0.25, 0.25])
    assert [one.reward for one in found.groups[0].members] == [1.0, 1.0]
    metrics = batch_metrics(found)
    assert metrics["train/total_reward/mean"] == 1.0
    assert metrics["train/reward_component/overlong/mean"] == pytest.approx(-0.25)
    plain = batch(group(long_member(10), long_member(2, nth=1)), grpo=GrpoSettings.model_validate(TRAINING))
    assert not any("reward_component" in name for name in batch_metrics(plain))


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({"reward_shaping": {"enabled": True}}, "overlong penalty needs"),
        (
            {"reward_shaping": {"enabled": True, "max_response_length": 5, "turn_penalty": 1.0}},
            "overlong penalty needs",
        ),
        ({"reward_shaping": {"enabled": True, **OVERLONG, "max_response_length": 3}}, "is above"),
        ({"reward_scaling": {"enabled": True, "source_min": 1.0}}, "source_min .* has to be below"),
        ({"reward_scaling": {"enabled": True, "target_min": 1.0}}, "target_min .* has to be below"),
        ({"reward_scaling": {"enabled": True, "target_min": 0.5, "target_max": -0.5}}, "target_min .* has to be below"),
    ],
)
def test_blocks_that_are_not_complete_say_what_is_missing(blocks: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        GrpoSettings.model_validate(blocks)
    off = {name: {**keys, "enabled": False} for name, keys in blocks.items()}
    assert GrpoSettings.model_validate(off)
