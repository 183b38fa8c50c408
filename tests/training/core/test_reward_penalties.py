"""Claims about `reward_penalties`: which rollouts they meet, and what is left of a reward."""

from typing import Any

import pytest
from pydantic import ValidationError

from paddock.training.core.flaws import FlawRules
from paddock.training.core.members import member_of
from paddock.training.core.reward_penalties import RewardPenaltySettings
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.core.shaped_rewards import shape_groups, shaped
from paddock.training.core.step_credit import sample_credits
from paddock.training.core.testing import group, member, rollout, turn
from paddock.types import Outcome
from paddock.types.responses import call_item, message_item

GRPO = GrpoSettings(normalize_rewards=False)


def thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


def found(*turns: Any, **keys: Any) -> tuple[str, ...]:
    rules = FlawRules(penalties=RewardPenaltySettings.model_validate(keys))
    return member_of(rollout(turns=list(turns)), GroupSettings(), rules).penalties


@pytest.mark.parametrize(
    ("output", "is_met"),
    [
        ([thought("it is 4 "), message_item(" it is 4")], True),
        ([thought("it is 4"), message_item("4")], False),
        ([thought(""), message_item("")], False),
        ([message_item("4"), message_item("4")], False),
    ],
)
def test_an_answer_that_repeats_its_thought(output: list[Any], is_met: bool) -> None:
    kinds = found(turn("a", output=output), turn("b", "a"), penalize_duplicated_reasoning=True)
    assert kinds == (("duplicated_reasoning",) if is_met else ())


@pytest.mark.parametrize(
    ("output", "is_met"),
    [
        ([], True),
        ([thought("hm")], True),
        ([message_item(" \n")], True),
        ([message_item("4")], False),
        ([thought("hm"), call_item("run", "{}")], False),
        ([call_item("run", "{}"), message_item("")], True),
    ],
)
def test_an_empty_last_turn(output: list[Any], is_met: bool) -> None:
    kinds = found(turn("a"), turn("b", "a", output=output), penalize_empty_final_answer=True)
    assert kinds == (("empty_final_answer",) if is_met else ())
    last = turn("b", "a", output=[message_item("4")])
    assert found(turn("a", output=output), last, penalize_empty_final_answer=True) == ()


def test_unwanted_tokens_are_those_of_turns_and_not_of_prompts() -> None:
    one = turn("a")
    keys = {"penalize_unwanted_tokens": True}
    assert one.sampled_ids
    assert one.prompt_ids
    assert found(one, token_ids={"unwanted": [one.sampled_ids[-1]]}, **keys) == ("unwanted_tokens",)
    others = [nth for nth in one.prompt_ids if nth not in one.sampled_ids]
    assert found(one, token_ids={"unwanted": others}, **keys) == ()
    assert found(one, token_ids={"unwanted": [one.sampled_ids[-1]]}) == (), "off, unless it is asked for"


@pytest.mark.parametrize(
    ("prompt", "sampled", "is_met"),
    [
        ([1, 12], [5, 13, 6], False),
        ([1, 12, 13], [5, 6], False),
        ([1], [5, 6], False),
        ([1, 12], [5, 6], True),
        ([1, 12], [5, 13, 13], True),
        ([1], [12, 5, 13], True),
        ([1, 13], [5], True),
    ],
)
def test_tags_that_a_prompt_does_not_leave_open(prompt: list[int], sampled: list[int], is_met: bool) -> None:
    one = turn("a").model_copy(update={"prompt_ids": prompt, "sampled_ids": sampled, "log_probs": [0.0] * len(sampled)})
    keys = {"penalize_malformed_think_tag": True, "token_ids": {"think_open": 12, "think_close": 13}}
    assert found(one, **keys) == (("malformed_think_tag",) if is_met else ())
    assert found(one, penalize_malformed_think_tag=True) == ()


@pytest.mark.parametrize("output", [[thought("<think>hm")], [message_item("hm</think> 4")]])
def test_tags_in_texts(output: list[Any]) -> None:
    assert found(turn("a", output=output), penalize_malformed_think_tag=True) == ("malformed_think_tag",)


@pytest.mark.parametrize(("reward", "left"), [(1.0, 0.0), (0.5, 0.0), (0.0, 0.0), (-1.0, -1.0)])
def test_no_positive_reward_is_left_and_none_is_raised(reward: float, left: float) -> None:
    penalised = shaped(member(0, reward)._replace(penalties=("unwanted_tokens",)), GRPO)
    assert penalised is not None
    assert penalised.reward == left
    assert penalised.components["penalties"] == left - reward


def test_a_penalised_reward_is_scaled_as_any_other() -> None:
    scaling = {"enabled": True, "target_min": -1.0, "target_max": 1.0}
    grpo = GrpoSettings.model_validate({"reward_scaling": scaling})
    penalised = shaped(member(0, 1.0)._replace(penalties=("unwanted_tokens",)), grpo)
    assert penalised is not None
    assert penalised.reward == -1.0


@pytest.mark.parametrize("outcome", ["infra", "verifier"])
def test_a_member_without_a_reward_stays_without_one_and_out_of_the_baseline(outcome: Outcome) -> None:
    failed = member(2, None, outcome=outcome)._replace(penalties=("empty_final_answer",))
    given = group(member(0, 1.0), member(1, 1.0)._replace(penalties=("unwanted_tokens",)), failed)
    (changed,), components = shape_groups([given], GRPO)
    assert [one.reward for one in changed.members] == [1.0, 0.0, None]
    assert components["penalties"] == [0.0, -1.0]
    advantages = [credit[0].advantage if credit else None for credit in sample_credits(changed.members, GRPO)]
    assert advantages == [1.0, -1.0, None]


def test_a_leaks_penalty_stays() -> None:
    leak = member(0, -2.0, outcome="leak")._replace(penalties=("unwanted_tokens",))
    assert shaped(leak, GRPO) == (-2.0, {"penalties": 0.0, "scaling": 0.0})


@pytest.mark.parametrize(
    "keys", [{"penalize_unwanted_tokens": True}, {"token_ids": {"think_open": 1}}, {"token_ids": {"unwanted": []}}]
)
def test_what_cannot_be_checked_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"token_ids|unwanted"):
        RewardPenaltySettings.model_validate(keys)
    assert RewardPenaltySettings.model_validate({"token_ids": None}) == RewardPenaltySettings()
