"""Claims about the inline form: NeMo-RL reads from it what was sampled, on what it was sampled, and what to mask."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.tokens import inline, place, samples
from paddock.types import OUTCOMES, REWARDED, Engine, Failure, JsonObject, Outcome, Rollout, Row, Turn, Usage, Verdict
from paddock.types.records import TurnRecord
from paddock.types.responses import call_item, message_item

Ids = list[int]
FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")


class InlineTurns(NamedTuple):
    """What a trainer makes of a result, by the contract alone."""

    ids: Ids
    mask: Ids
    log_probs: list[float]
    masked: bool


def read_by_the_contract(result: JsonObject) -> InlineTurns:
    """An own reading of the published contract: items with generated ids, in order, each prompt a continuation."""
    seen: Ids = []
    read = InlineTurns([], [], [], result["instance_config"]["mask_sample"])
    trainable = 0
    assert isinstance(result["reward"], float)
    assert "input" in result["responses_create_params"]
    for item in result["response"]["output"]:
        present = [name for name in FIELDS if name in item]
        assert present in ([], list(FIELDS))
        if not item.get("generation_token_ids"):
            continue
        assert item["type"] in ("message", "function_call", "reasoning")
        prompt, generated, log_probs = (item[name] for name in FIELDS)
        assert seen == prompt[: len(seen)], "Non-contiguous messages found!"
        assert len(generated) == len(log_probs)
        assert all(type(value) is float and value == value for value in log_probs)
        new = prompt[len(seen) :]
        read.ids.extend([*new, *generated])
        read.mask.extend([0] * len(new) + [1] * len(generated))
        read.log_probs.extend([0.0] * len(new) + log_probs)
        seen = prompt + generated
        trainable += 1
    if not trainable:
        raise ValueError("no generation data")
    return read


def turn(turn_id: str, parent: str | None, prompt: Ids | None, sampled: Ids | None, **known: Any) -> Turn:
    fields: dict[str, Any] = {
        "log_probs": None if sampled is None else [-0.5 - nth for nth in range(len(sampled))],
        "weight_version": "w",
        "finish_reason": "stop",
        "request_hash": "",
        "output": [message_item(turn_id)],
    }
    return Turn(id=turn_id, parent=parent, prompt_ids=prompt, sampled_ids=sampled, **{**fields, **known})


def rollout(
    *turns: Turn,
    outcome: Outcome = "completed",
    output: list[JsonObject] | None = None,
    engine: Engine = "exact",
    **extras: Any,
) -> Rollout:
    rewarded = outcome in REWARDED
    return Rollout(
        row=Row.from_wire({"responses_create_params": {"tools": []}, "_ng_task_index": 3, "repo": "r"}),
        outcome=outcome,
        engine=engine,
        response=None if output is None else {"id": "resp_1", "output": output},
        turns=list(turns),
        verdict=Verdict(reward=0.5, reason="x", extras=extras) if rewarded else None,
        failure=None if rewarded else Failure(owner="infra", kind="x", message=""),
    )


REASONING: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": []}
CUSTOM: JsonObject = {"type": "custom_tool_call", "id": "ct_1", "call_id": "c", "name": "patch", "input": "x"}
outputs = st.lists(
    st.sampled_from([message_item("said"), call_item("bash", "{}"), REASONING, CUSTOM, {"type": "other"}]), max_size=3
)


@st.composite
def records(draw: st.DrawFn) -> TurnRecord:
    """Prompts that go on, branch and begin anew; turns without ids, without log-probs, that sampled nothing."""
    turns: list[Turn] = []
    seen: list[Ids] = [[]]
    fresh = iter(range(1, 10_000))
    for number in range(draw(st.integers(1, 7))):
        output = draw(outputs)
        if draw(st.integers(0, 9)) == 0:
            turns.append(turn(str(number), turns[-1].id if turns else None, None, None, output=output))
            continue
        prompt = draw(st.sampled_from(seen)) + [next(fresh) for _ in range(draw(st.integers(0, 2)))]
        sampled = [next(fresh) for _ in range(draw(st.integers(0, 3)))]
        known: dict[str, Any] = {"log_probs": None} if draw(st.integers(0, 9)) == 0 else {}
        placed = place(turns, prompt)
        turns.append(turn(str(number), placed.parent, placed.prompt_ids, sampled, output=output, **known))
        seen.append(prompt + sampled)
    return TurnRecord(engine=draw(st.sampled_from(["exact", "spliced", "text"])), turns=turns)


@given(records(), st.sampled_from(OUTCOMES))
def test_a_trainer_reads_the_chain_or_masks_it(record: TurnRecord, outcome: Outcome) -> None:
    stored = rollout(*record.turns, outcome=outcome, engine=record.engine, output=record.turns[0].output)
    result = inline(stored)
    read = read_by_the_contract(result)
    found = list(samples(record, "chain")) if outcome in REWARDED else []
    assert read.masked == (not found)
    assert result["reward"] == (0.5 if outcome in REWARDED else 0.0)
    for sample in found:
        assert read[:3] == (sample.ids, sample.loss_mask, sample.log_probs)


@given(records())
def test_ids_are_on_the_last_item_of_a_turn_that_may_carry_them(record: TurnRecord) -> None:
    stored = rollout(*record.turns, engine=record.engine)
    for sample in samples(record, "chain"):
        carriers = [item for item in inline(stored)["response"]["output"] if "generation_token_ids" in item]
        by_id = {each.id: each for each in record.turns}
        trained = [span for span in sample.spans if span.trained]
        ends = {span.end for span in trained}
        told = [by_id[span.turn] for span in trained if span.start not in ends]
        for item, said in zip(carriers, told, strict=True):
            plain = {key: value for key, value in item.items() if key not in FIELDS}
            able = [own for own in said.output if own["type"] in ("message", "function_call", "reasoning")]
            assert plain == able[-1] if able else plain["id"] == f"msg_{said.id}"


def test_the_environments_items_stand_after_the_turns_that_they_followed() -> None:
    first, other, second = call_item("ls", "{}", "call_1"), call_item("cat", "{}", "call_2"), message_item("done")
    turns = [turn("1", None, [1], [2], output=[REASONING, first]), turn("side", None, [7], [8], output=[other])]
    turns.append(turn("2", "1", [3], [4], output=[second]))
    result = {"type": "function_call_output", "call_id": "call_1", "output": "README.md"}
    unknown = {"type": "function_call_output", "call_id": "call_2", "output": "of the side branch"}
    told = {"type": "message", "role": "user", "content": "go on"}
    output = [REASONING, first, result, told, other, unknown, {**told, "content": "to the side"}, second]
    found = inline(rollout(*turns, output=output))["response"]
    assert found["id"] == "resp_1"
    assert [{key: item[key] for key in item if key not in FIELDS} for item in found["output"]] == [
        REASONING,
        first,
        result,
        told,
        second,
    ]
    assert [item.get("prompt_token_ids") for item in found["output"]] == [None, [1], None, None, [1, 2, 3]]


def test_what_the_response_does_not_have_is_left_out() -> None:
    turns = [turn("1", None, [1], [2]), turn("2", "1", [3], [4])]
    items = inline(rollout(*turns, output=[message_item("another client's words")]))["response"]["output"]
    assert [item["content"][0]["text"] for item in items] == ["1", "2"]
    assert len(inline(rollout(*turns))["response"]["output"]) == 2


def test_ids_that_an_item_brought_along_are_not_believed() -> None:
    brought = {**message_item("x"), **{name: [9] for name in FIELDS}, "routed_experts": "x"}
    stored = rollout(
        turn("1", None, [1], [2], output=[brought, call_item("ls", "{}")]), turn("2", "1", [3], [], output=[brought])
    )
    assert read_by_the_contract(inline(stored)).ids == [1, 2]
    assert "routed_experts" not in inline(stored)["response"]["output"][0]


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (rollout(turn("1", None, [1], [2]), outcome="infra"), "infra"),
        (rollout(turn("1", None, [1], [2]), outcome="leak"), "leak"),
        (rollout(turn("1", None, [1], [2]), engine="text"), "no_trainable_turn"),
        (rollout(output=[message_item("hello")]), "no_trainable_turn"),
    ],
)
def test_what_can_t_be_trained_on_is_masked_with_a_prompt_that_no_group_has(stored: Rollout, why: str) -> None:
    result = inline(stored)
    read = read_by_the_contract(result)
    assert result["instance_config"] == {"mask_sample": True, "mask_reason": why}
    assert (read.ids, read.masked) == ([0, 0], True)
    assert len(result["response"]["output"]) == 1 + len((stored.response or {"output": []})["output"])


def test_a_turn_that_is_not_trained_on_is_in_the_next_prompt_alone() -> None:
    miscounted = turn("2", "1", [3], [4], usage=Usage(input_tokens=9, output_tokens=1))
    read = read_by_the_contract(inline(rollout(turn("1", None, [1], [2]), miscounted, turn("3", "2", [5], [6]))))
    assert (read.ids, read.mask) == ([1, 2, 3, 4, 5, 6], [0, 1, 0, 0, 0, 1])


def test_a_turn_that_was_told_nothing_new_is_with_the_one_before_it() -> None:
    result = inline(rollout(turn("1", None, [1], [2]), turn("2", "1", [], [3]), turn("3", "2", [4], [5])))
    read = read_by_the_contract(result)
    assert (read.ids, read.mask, read.log_probs) == ([1, 2, 3, 4, 5], [0, 1, 1, 0, 1], [0, -0.5, -0.5, 0, -0.5])
    assert [item.get("prompt_token_ids") for item in result["response"]["output"]] == [[1], None, [1, 2, 3, 4]]


def test_turns_beside_the_path_are_counted() -> None:
    title = turn("title", None, [8], [9, 9, 9])
    result = inline(rollout(turn("1", None, [1], [2]), turn("again", None, [1], [3]), title))
    assert result["instance_config"] == {"mask_sample": False, "off_path_turns": 2}
    assert read_by_the_contract(result).ids == [1, 3]
    assert read_by_the_contract(inline(rollout(turn("1", None, [1], [2]), title), "whole")).ids == [8, 9, 9, 9]


def test_what_does_not_begin_with_the_first_prompt_is_masked() -> None:
    uncounted = turn("1", None, [1], [2], log_probs=None)
    result = inline(rollout(uncounted, turn("2", "1", [3], [4]), turn("other", None, [8], [9])))
    assert result["instance_config"] == {"mask_sample": True, "mask_reason": "off_path", "off_path_turns": 2}


def test_the_row_and_the_verdict_are_flat_and_a_mask_that_was_set_stays() -> None:
    config = {"instance_id": "x", "mask_sample": True}
    result = inline(rollout(turn("1", None, [1], [2]), category="c", instance_config=config))
    assert (result["_ng_task_index"], result["repo"], result["category"], result["reward"]) == (3, "r", "c", 0.5)
    assert result["instance_config"] == config
    assert "rollout" not in result
    unmasked = inline(rollout(turn("1", None, [1], [2])))
    assert unmasked["instance_config"] == {"mask_sample": False}


def test_the_rollout_is_not_changed() -> None:
    stored = rollout(turn("1", None, [1], [2]))
    before = stored.model_dump()
    inline(stored)
    assert stored.model_dump() == before
