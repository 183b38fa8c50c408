"""Claims about post-processing: messages, flags and refusals are those of NeMo-RL."""

import pickle
from copy import deepcopy
from typing import Any

import pytest

from paddock.training.core.flaws import FlawRules
from paddock.training.nemo_rl.postprocess import RefusedResultError, postprocess
from paddock.training.nemo_rl.records import LoggedMessage
from paddock.types import JsonObject


def item(prompt: list[int], sampled: list[int], **more: Any) -> JsonObject:
    return {
        "type": "message",
        "content": [{"type": "output_text", "text": "x"}],
        "prompt_token_ids": prompt,
        "generation_token_ids": sampled,
        "generation_log_probs": [-0.5] * len(sampled),
        **more,
    }


def result(*items: JsonObject, **more: Any) -> JsonObject:
    return {"responses_create_params": {"input": []}, "response": {"output": [*items]}, "reward": 1, **more}


def test_each_turn_is_the_new_part_of_its_prompt_and_its_answer() -> None:
    given = result({"type": "reasoning"}, item([1, 2], [3]), item([9], []), item([1, 2, 3, 4], [5, 6]))
    before = deepcopy(given)
    found = postprocess(given)
    assert found.messages == (
        LoggedMessage("user", [1, 2]),
        LoggedMessage("assistant", [3], [-0.5]),
        LoggedMessage("user", [4]),
        LoggedMessage("assistant", [5, 6], [-0.5, -0.5]),
    )
    assert (found.reward, found.masked, found.first_prompt) == (1.0, False, [1, 2])
    assert given == before
    assert postprocess(result(item([1], [2]), instance_config={"mask_sample": True})).masked
    assert not postprocess(result(item([1], [2]), mask_sample=True)).masked


def text(said: str) -> JsonObject:
    return {"type": "output_text", "text": said}


@pytest.mark.parametrize(
    ("said", "flags"),
    [
        ({"content": [text("a <tool_call> that did not parse")]}, (True, False)),
        ({"content": [text("</think> the answer")]}, (False, True)),
        ({"content": [text("fine"), text("<tool_call>")]}, (False, False)),
        ({"content": "<tool_call>"}, (False, False)),
        ({"type": "reasoning", "content": [], "summary": [text("<think> once </think>")]}, (False, False)),
        ({"type": "reasoning", "content": None, "summary": [text("</think></think></function_call>")]}, (True, True)),
        ({"type": "message", "content": [], "summary": [text("<tool_call>")]}, (False, False)),
        ({"type": "function_call", "content": None, "arguments": "{<tool_call>"}, (False, False)),
    ],
)
def test_flags_are_of_the_first_text_of_the_item_with_the_ids(said: JsonObject, flags: tuple[bool, bool]) -> None:
    (_, answer) = postprocess(result(item([1], [2], **said))).messages
    assert (answer.is_invalid_tool_call, answer.has_malformed_thinking) == flags


def test_patterns_are_those_of_the_config_and_none_are_the_defaults() -> None:
    said = item([1], [2], content=[text("[CALL] <think>")])
    own = FlawRules(invalid_tool_call_patterns=("[CALL]",), thinking_tags=())
    answer = postprocess(result(said), own).messages[1]
    assert (answer.is_invalid_tool_call, answer.has_malformed_thinking) == (True, True)
    assert not postprocess(result(said)).messages[1].is_invalid_tool_call


@pytest.mark.parametrize(
    ("refused", "rule"),
    [
        ({"response": {}}, "result"),
        (result(), "trainable"),
        (result(item([1], [2]), item([1, 9, 3], [4])), "contiguous"),
        (result(item([1], [2]), item([1, 2], [4])), "new_prompt"),
        (result(item([1], [2], generation_log_probs=[float("nan")])), "log_prob_numbers"),
        (result(item([1], [2], routed_experts="x")), "routed_experts"),
        (result(item([1], [2]), reward=None), "reward"),
        (result(item([1], [2]), instance_config="masked"), "instance_config"),
        (result(item([1], [2]), reward_components={"a": 2.0}), "reward_components"),
    ],
)
def test_what_nemo_rl_refuses_is_refused_with_the_rule(refused: JsonObject, rule: str) -> None:
    with pytest.raises(RefusedResultError, match=rule) as caught:
        postprocess(refused)
    assert pickle.loads(pickle.dumps(caught.value)).violation == caught.value.violation


def test_what_nemo_rl_takes_silently_is_taken() -> None:
    found = postprocess(result(item([1], [-2, 3], generation_log_probs=[float("-inf")]), mask_sample=True))
    assert found.messages[1].token_ids == [-2, 3]
    with pytest.raises(RefusedResultError, match="routed_experts"):
        postprocess(result(item([1], [2])), require_routed_experts=True)
