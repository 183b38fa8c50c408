"""Claims about the checker: each rule is broken by a result of its own, which is rejected with the rule's name."""

from collections.abc import Callable
from typing import Any

import pytest

from paddock.training.nemo_rl.checks import RULES, CheckSettings, check_group, check_result, check_results
from paddock.types import JsonObject

LONGEST = CheckSettings(max_total_sequence_length=12, overlong_filtering=True)


def item(prompt: list[Any], sampled: list[Any], **more: Any) -> JsonObject:
    tokens = {
        "prompt_token_ids": prompt,
        "generation_token_ids": sampled,
        "generation_log_probs": [-0.5] * len(sampled),
    }
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}], **tokens, **more}


def result(member: int = 0, **more: Any) -> JsonObject:
    """Two turns, of a group of two."""
    told = {"type": "function_call_output", "call_id": "c", "output": "README.md"}
    return {
        "responses_create_params": {"input": [], "temperature": 1.0, "top_p": 1.0},
        "agent_ref": {"name": "agent"},
        "_ng_task_index": 3,
        "_ng_rollout_index": member,
        "_paddock_group_size": 2,
        "response": {"output": [item([1, 2], [3, 4]), told, item([1, 2, 3, 4, 5], [6, 7 + member])]},
        "reward": 0.5,
        "instance_config": {"mask_sample": False},
        **more,
    }


def failed(member: int = 1, prompt: tuple[int, ...] = (0,), **more: Any) -> JsonObject:
    masked = {"mask_sample": True, "mask_reason": "infra"}
    return result(member, response={"output": [item([*prompt], [0])]}, reward=0.0, instance_config=masked, **more)


def last(**more: Any) -> JsonObject:
    """A result whose last turn is another."""
    first, told, second = result()["response"]["output"]
    return result(response={"output": [first, told, {**second, **more}]})


def routed(first: Any, second: Any) -> JsonObject:
    given = last(routed_experts=second)
    given["response"]["output"][0]["routed_experts"] = first
    return given


ROUTES = "nrlre1:int8:7x1x1:AAAAAAAAAA=="
BROKEN_ALONE: list[tuple[str, JsonObject, CheckSettings, tuple[int | None, int | None, int | None]]] = [
    ("result", result(response={"output": {}}), CheckSettings(), (None, None, None)),
    ("result", result(response={"output": [1]}), CheckSettings(), (0, None, None)),
    ("input", result(responses_create_params={}), CheckSettings(), (None, None, None)),
    ("token_fields", last(generation_log_probs=None), CheckSettings(), (2, 1, None)),
    ("token_fields", last(prompt_token_ids=None), CheckSettings(), (2, 1, None)),
    ("integer_ids", last(generation_token_ids=[6, 7.0]), CheckSettings(), (2, 1, 1)),
    ("integer_ids", last(prompt_token_ids=[1, 2, 3, 4, "5"]), CheckSettings(), (2, 1, 4)),
    ("known_ids", last(generation_token_ids=[6, -1]), CheckSettings(), (2, 1, 1)),
    ("known_ids", result(), CheckSettings(vocabulary_size=7), (2, 1, 1)),
    ("known_ids", last(generation_token_ids=[True, 7]), CheckSettings(), (2, 1, 0)),
    ("contiguous", last(prompt_token_ids=[1, 2, 3, 9, 5]), CheckSettings(), (2, 1, 3)),
    ("contiguous", last(prompt_token_ids=[1, 2, 3]), CheckSettings(), (2, 1, 3)),
    ("new_prompt", last(prompt_token_ids=[1, 2, 3, 4]), CheckSettings(), (2, 1, 4)),
    ("log_prob_numbers", last(generation_log_probs=[-0.5, float("nan")]), CheckSettings(), (2, 1, 1)),
    ("log_prob_numbers", last(generation_log_probs=[None, -0.5]), CheckSettings(), (2, 1, 0)),
    ("log_probs_finite", last(generation_log_probs=[-0.5, float("-inf")]), CheckSettings(), (2, 1, 1)),
    ("log_probs_length", last(generation_log_probs=[-0.5]), CheckSettings(), (2, 1, 1)),
    ("trainable", result(response={"output": [{"type": "message"}]}), CheckSettings(), (None, None, None)),
    ("trainable", result(response={"output": [item([1], [])]}), CheckSettings(), (None, None, None)),
    ("routed_experts", last(routed_experts="nrlre1:int8:6x1x1:AAAAAAAA"), CheckSettings(), (2, 1, None)),
    ("routed_experts", last(routed_experts="nrlre1:int8:7x1x1:AAAA"), CheckSettings(), (2, 1, None)),
    ("routed_experts", last(routed_experts="nrlre1:int64:7x1x1:AAAA"), CheckSettings(), (2, 1, None)),
    ("routed_experts", last(routed_experts="nrlre1:int8:7x1:AAAA"), CheckSettings(), (2, 1, None)),
    ("routed_experts", last(routed_experts="routes"), CheckSettings(), (2, 1, None)),
    ("routed_experts", last(routed_experts=[[1, 2]] * 7), CheckSettings(), (2, 1, None)),
    ("routed_experts", last(routed_experts=[[[1]]] * 6), CheckSettings(), (2, 1, None)),
    ("routed_experts", last(routed_experts=[[[1]], [[1], [2]]]), CheckSettings(), (2, 1, None)),
    ("routed_experts", last(routed_experts={}), CheckSettings(), (2, 1, None)),
    ("routed_experts", routed([[[1]]] * 4, [[[1, 2]]] * 7), CheckSettings(), (2, 1, None)),
    ("routed_experts", last(), CheckSettings(require_routed_experts=True), (0, 0, None)),
    ("too_long", result(), CheckSettings(max_total_sequence_length=6), (None, None, 6)),
    ("overlong", result(response={**result()["response"], "status": "incomplete"}), LONGEST, (None, None, None)),
    ("reward", result(reward=None), CheckSettings(), (None, None, None)),
    ("reward", result(reward="0.5"), CheckSettings(), (None, None, None)),
    ("reward_finite", result(reward=float("nan")), CheckSettings(), (None, None, None)),
    ("reward_components", result(reward_components={"a": 0.2, "b": 0.2}), CheckSettings(), (None, None, None)),
    ("reward_components", result(reward_components={"a": "x"}), CheckSettings(), (None, None, None)),
    ("instance_config", result(instance_config="masked"), CheckSettings(), (None, None, None)),
    ("mask_boolean", result(instance_config={"mask_sample": "false"}), CheckSettings(), (None, None, None)),
    ("mask_place", result(mask_sample=True), CheckSettings(), (None, None, None)),
    ("metrics", result(close=float("inf")), CheckSettings(), (None, None, None)),
    ("agent_ref", result(agent_ref={"type": "agents"}), CheckSettings(), (None, None, None)),
    ("sampling", result(responses_create_params={"input": [], "top_k": 20}), CheckSettings(), (None, None, None)),
    ("sampling", result(), CheckSettings(temperature=0.6), (None, None, None)),
]
PARAMS = {"input": [], "temperature": 0.6, "top_p": 1.0}
OTHER = {"output": [item([1, 9], [3])]}
BROKEN_TOGETHER: list[tuple[str, int, list[JsonObject]]] = [
    ("task_index", 2, [result(), result(1, _ng_task_index=None), result(1)]),
    ("group_complete", 1, [result()]),
    ("group_complete", 2, [result(), result(1), result(1)]),
    ("group_complete", 1, [result(), result(1, _paddock_group_size=3)]),
    ("group_agent", 2, [result(), result(1, agent_ref={"name": "other"})]),
    ("group_sampling", 2, [result(), result(1, responses_create_params=PARAMS)]),
    ("group_prompt", 2, [result(), result(1, response=OTHER)]),
    ("group_alone", 1, [result(), failed()]),
    ("groups_apart", 3, [result(), result(1), result(0, _ng_task_index=4), result(1, _ng_task_index=4)]),
    ("masked_apart", 2, [result(), failed(1, (1, 2))]),
]


@pytest.mark.parametrize(("rule", "broken", "settings", "where"), BROKEN_ALONE, ids=lambda one: str(one)[:20])
def test_a_result_that_breaks_one_rule_is_rejected_with_its_name_and_place(
    rule: str, broken: JsonObject, settings: CheckSettings, where: tuple[int | None, int | None, int | None]
) -> None:
    found = check_result(broken, settings)
    assert {one.rule for one in found} == {rule}
    assert (found[0].item, found[0].turn, found[0].token) == where
    assert rule in str(found[0])


@pytest.mark.parametrize(("rule", "blamed", "results"), BROKEN_TOGETHER, ids=lambda one: str(one)[:20])
def test_results_that_break_a_rule_between_them_are_rejected(rule: str, blamed: int, results: list[JsonObject]) -> None:
    found = list(check_results(results))
    assert (rule, blamed) in {(one.violation.rule, one.result) for one in found}
    names = {one.violation.rule for one in found}
    assert names <= {rule, "group_alone", "group_complete"}


def test_each_rule_of_the_table_has_a_result_that_breaks_it() -> None:
    assert {rule for rule, *_ in (*BROKEN_ALONE, *BROKEN_TOGETHER)} == set(RULES)


@pytest.mark.parametrize(
    "sound",
    [
        lambda: [result(), result(1)],
        lambda: [result(1), result()],
        lambda: [failed(0), failed(1)],
        lambda: [result(member, _paddock_epoch=epoch) for epoch in (0, 1) for member in (0, 1)],
        lambda: [{key: value for key, value in result().items() if key[0] != "_"}] * 3,
        lambda: [result(_paddock_group_size=1)],
        lambda: [result(0, instance_config={"mask_sample": True}), result(1)],
        lambda: [result(reward=True, reward_components={"a": 0.4, "b": 0.6 + 1e-7}), result(1, instance_config=None)],
        lambda: [{**last(routed_experts=ROUTES), "mask_sample": False}, result(1, agent_ref=result()["agent_ref"])],
        lambda: [failed(2, _paddock_group_size=3), *(result(n, _paddock_group_size=3) for n in (0, 1))],
    ],
)
def test_what_breaks_no_rule_is_accepted(sound: Callable[[], list[JsonObject]]) -> None:
    assert list(check_results(sound())) == []


def test_what_was_cut_at_the_longest_length_or_is_masked_is_filtered() -> None:
    cut = {"status": "incomplete", "output": [item([1] * 10, [2, 3])]}
    assert check_result(result(response=cut), LONGEST) == []
    cut["output"] = [item([1] * 9, [2, 3])]
    assert check_result(result(response=cut, instance_config={"mask_sample": True}), LONGEST) == []


def test_the_member_that_is_unlike_the_others_is_blamed_though_it_came_first() -> None:
    odd = result(0, response=OTHER, _paddock_group_size=3)
    (found,) = check_results([odd, *(result(nth, _paddock_group_size=3) for nth in (1, 2))])
    assert (found.result, found.violation.rule, found.violation.token) == (1, "group_prompt", 1)


def test_a_group_by_itself_is_told_its_size() -> None:
    unstamped = [{key: value for key, value in result().items() if key[0] != "_"}] * 2
    assert check_group(unstamped, size=2) == []
    (found,) = check_group(unstamped, size=4)
    assert found.rule == "group_complete"
    assert [one.rule for one in check_group([result(), failed(1, (1, 2))])] == ["group_alone", "masked_apart"]
