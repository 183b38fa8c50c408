"""Claims about members and flaws: a failure teaches nothing, a verdict is kept whole, a bad call is found."""

from typing import Any, Literal

import numpy as np
import pytest

from paddock.tokens.export import rollout_samples
from paddock.training.core.flaws import FlawRules, flaws_of
from paddock.training.core.members import member_of, member_sample
from paddock.training.core.records import Flaw
from paddock.training.core.settings import GroupSettings
from paddock.training.core.testing import FAILED_OUTCOMES, as_lists, rollout, turn
from paddock.types import Outcome, RoutedExperts, WeightSpan
from paddock.types.responses import call_item, message_item

RULES = FlawRules()
WHOLE = GroupSettings()


def reasoning(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


def test_a_verdict_is_kept_with_its_exact_samples() -> None:
    ended = rollout("truncated", 0.5, nth=3, turns=[turn("a"), turn("b", "a")])
    found = member_of(ended, WHOLE, RULES)
    assert (found.nth, found.outcome, found.reward, found.turns) == (3, "truncated", 0.5, 2)
    assert found.reason == "match"
    assert found.metrics == {"close": 0.5}
    (one,) = found.samples
    assert one.cut
    assert one.loss_mask.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert [one.ids.dtype, one.loss_mask.dtype, one.log_probs.dtype] == ["int32", "bool", "float32"]


@pytest.mark.parametrize("outcome", FAILED_OUTCOMES)
def test_a_failure_has_neither_reward_nor_samples(outcome: Outcome) -> None:
    found = member_of(rollout(outcome), WHOLE, RULES)
    assert (found.reward, found.samples, found.reason) == (None, (), "timeout")


def test_only_a_leak_has_the_penalty_of_the_config() -> None:
    settings = GroupSettings(leak_penalty=-1.0)
    rewards = {outcome: member_of(rollout(outcome), settings, RULES).reward for outcome in FAILED_OUTCOMES}
    assert rewards == {outcome: -1.0 if outcome == "leak" else None for outcome in FAILED_OUTCOMES}
    assert member_of(rollout("leak"), settings, RULES).samples


def test_what_an_engine_without_ids_gave_has_a_verdict_and_no_samples() -> None:
    found = member_of(rollout("completed", 1.0, engine="text"), WHOLE, RULES)
    assert (found.reward, found.samples, found.skipped) == (1.0, (), 1)


def test_a_sample_per_turn_where_the_config_says_so() -> None:
    ended = rollout("completed", 1.0, turns=[turn("a"), turn("b", "a"), turn("c", "b")])
    found = member_of(ended, GroupSettings(sample_mode="dynamic_history"), RULES)
    assert [len(one.ids) for one in found.samples] == [4, 8, 12]


@pytest.mark.parametrize("mode", ["whole", "branch", "dynamic_history"])
def test_samples_are_those_that_are_exported(mode: Literal["whole", "branch", "dynamic_history"]) -> None:
    spans = [WeightSpan(version="0", start=0, end=1), WeightSpan(version="1", start=1, end=2)]
    first = turn("a", weight_version="1", weight_spans=spans)
    told = [first, turn("b", "a", finish_reason="length"), turn("c", "a", log_probs=None)]
    ended = rollout("completed", 1.0, turns=[*told, turn("d", "c")])
    exported = [member_sample(sample) for sample in rollout_samples(ended, mode)]
    found = member_of(ended, GroupSettings(sample_mode=mode), RULES).samples
    assert exported
    assert as_lists(list(found)) == as_lists(exported)


def test_each_token_of_a_sample_but_the_last_has_its_experts() -> None:
    """As few bytes as they were recorded in; a sample of which a part has none has none."""
    first = np.array([[[0, 1]], [[2, 3]], [[4, 5]]], np.int32)
    then = np.array([[[6, 7]], [[0, 2]], [[1, 3]], [[5, 4]]], np.int32)
    texts = [RoutedExperts.of(rows).to_text() for rows in (first, then)]
    turns = [turn("a", routed_experts=texts[0]), turn("b", "a", routed_experts=texts[1])]
    ended = rollout("completed", 1.0, turns=turns)
    (one,) = member_of(ended, WHOLE, RULES).samples
    assert one.routed_experts is not None
    assert one.routed_experts.dtype == "int8"
    assert one.routed_experts.tolist() == [*first.tolist(), *then.tolist()]
    exported = [member_sample(sample) for sample in rollout_samples(ended, "whole")]
    assert as_lists(exported) == as_lists([one])
    (other,) = member_of(rollout("completed", 1.0, turns=[turns[0], turn("b", "a")]), WHOLE, RULES).samples
    assert other.routed_experts is None


def test_an_unstamped_rollout_is_refused() -> None:
    with pytest.raises(ValueError, match="_ng_rollout_index"):
        member_of(rollout(nth=None), WHOLE, RULES)


@pytest.mark.parametrize(
    ("items", "kinds"),
    [
        ([message_item("done"), call_item("run", '{"a": 1}')], []),
        ([call_item("run", "{}")], []),
        ([message_item("<tool_call>{run")], ["invalid_tool_call"]),
        ([reasoning("so I say </function_call>")], ["invalid_tool_call"]),
        ([call_item("run", '{"a": ')], ["invalid_tool_call"]),
        ([call_item("run", "[1]")], ["invalid_tool_call"]),
        ([call_item("run", '{"a": "<tool_call>"}')], []),
        ([message_item("<think>hm</think> done")], ["malformed_thinking"]),
        ([reasoning("<think>hm</think>")], []),
        ([reasoning("<think>hm <think>")], ["malformed_thinking"]),
        ([message_item("</think><tool_call>")], ["invalid_tool_call", "malformed_thinking"]),
        ([{"type": "custom_tool_call", "input": "<tool_call>"}, {}, {"type": "message", "content": 3}], []),
    ],
)
def test_flaws(items: list[dict[str, Any]], kinds: list[str]) -> None:
    assert [flaw.kind for flaw in flaws_of(turn("a", output=items), RULES)] == kinds


def test_what_to_look_for_is_the_configs() -> None:
    rules = FlawRules(("[CALL]",), ())
    said = turn("a", output=[message_item("<tool_call> <think> [CALL]")])
    assert list(flaws_of(said, rules)) == [Flaw("a", "invalid_tool_call")]


def test_flaws_are_told_by_turn() -> None:
    bad = [call_item("run", "nothing")]
    found = member_of(rollout(turns=[turn("a"), turn("b", "a", output=bad)]), WHOLE, RULES)
    assert found.flaws == (Flaw("b", "invalid_tool_call"),)
