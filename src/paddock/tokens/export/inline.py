"""A rollout with its ids inside its response: what NeMo-RL reads of a NeMo-Gym agent's `/run`.

Form    the row and the verdict flat, without the record of turns. `response.output` is one path (mode `chain`: from the
        rollout's first prompt on): per turn the items that the model gave, the last message, function call or reasoning
        of them with `prompt_token_ids` (the whole prompt), `generation_token_ids` and `generation_log_probs`; a turn
        without such an item gets an empty message. So each prompt begins with all prompts and answers before it. What a
        turn sampled that was told nothing new is with the ids of the turn before it: each needs a prompt of its own.
        `instance_config.off_path_turns` counts the turns that could be trained on and are beside the path, if any are.
Between after a turn stands what the environment told, as the rollout's response has it: results by their call id,
        messages by the turn that they follow there. What the response does not have, and what belongs to turns beside
        the path, is left out: only its ids are there, in the next prompt.
Masked  a rollout without a reward, or without a turn to train on, has `instance_config.mask_sample` true and
        `mask_reason`, keeps what the response said, and has one placeholder item with a token: a rollout without
        any ends a whole batch. The placeholder's prompt is no group's, so that it enters no baseline. Its reward is the
        rollout's, or 0 where there is none: the form knows no null. `mask_reason` is the outcome, or
        `no_trainable_turn`, or `off_path`: what could be trained on does not begin with the rollout's first prompt.
Splices `broken_splices` counts the turns whose engine did not go on from the ids that it was told to; a rollout with
        any is masked, with `mask_reason` `splice_broken`: what its reward is for is not what its ids say.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from paddock.tokens.export.rollouts import plan_rollout
from paddock.tokens.export.sample_plan import SamplePlan
from paddock.types import JsonObject, Rollout, Turn
from paddock.types.responses import CALLS, item_type, output_items

CARRIERS = ("message", "function_call", "reasoning")
RESULTS = ("function_call_output", "custom_tool_call_output")
TOKEN_FIELDS = frozenset({"prompt_token_ids", "generation_token_ids", "generation_log_probs", "routed_experts"})
PLACEHOLDER_ID = 0
"""In every vocabulary."""


def inline(rollout: Rollout, mode: Literal["chain", "whole"] = "chain") -> JsonObject:
    """The rollout's line in the inline form. Each turn has its whole prompt: its length grows with their square."""
    planned = plan_rollout(rollout, mode)
    masked = _mask_reason(rollout, planned)
    if masked is None:
        output = _output(rollout, planned)
    else:
        output = [*map(_bare, output_items(rollout.response)), _placeholder()]
    wire = rollout.model_copy(update={"turns": []}).to_wire()
    del wire["rollout"]
    given = wire.get("instance_config")
    config = given if isinstance(given, dict) else {}
    mask = {"mask_sample": True, "mask_reason": masked} if masked else {"mask_sample": bool(config.get("mask_sample"))}
    beside = _n_beside(planned)
    counts = {"off_path_turns": beside} if beside else {}
    return {
        **wire,
        "responses_create_params": {"input": [], **rollout.row.responses_create_params},
        "response": {**(rollout.response or {}), "output": output},
        "reward": rollout.reward or 0.0,
        "instance_config": {**config, **mask, **counts},
        "broken_splices": _broken_splices(rollout),
    }


def _mask_reason(rollout: Rollout, planned: SamplePlan) -> str | None:
    if rollout.reward is None:
        return rollout.outcome
    if _broken_splices(rollout):
        return "splice_broken"
    if planned.planned:
        return None
    return "off_path" if _n_beside(planned) else "no_trainable_turn"


def _n_beside(planned: SamplePlan) -> int:
    return sum(turn.reason == "off_path" for turn in planned.skipped)


def _broken_splices(rollout: Rollout) -> int:
    return sum(turn.splice_broken for turn in rollout.turns)


def _output(rollout: Rollout, planned: SamplePlan) -> list[JsonObject]:
    (only,) = planned.planned
    path = planned.exact.path(only.leaf)
    between = _environment(output_items(rollout.response), path)
    seen: list[int] = []
    carried: JsonObject | None = None
    carried_to = 0
    output: list[JsonObject] = []
    for number, turn in enumerate(path):
        prompt = [*seen, *(turn.prompt_ids or ())]
        seen = [*prompt, *(turn.sampled_ids or ())]
        items = [_bare(item) for item in turn.output]
        if turn.id in only.trained:
            if carried is None or len(prompt) > carried_to:
                carried = _carrier(items, turn.id)
                carried.update(prompt_token_ids=prompt, generation_token_ids=[], generation_log_probs=[])
            carried["generation_token_ids"] += turn.sampled_ids or ()
            carried["generation_log_probs"] += turn.log_probs or ()
            carried_to = len(seen)
        output += items
        output += between.get(number, ())
    return output


def _carrier(items: list[JsonObject], turn_id: str) -> JsonObject:
    """The last item that may carry ids; an empty message, added, where none may."""
    for item in reversed(items):
        if item_type(item) in CARRIERS:
            return item
    items.append(_message(f"msg_{turn_id}"))
    return items[-1]


def _environment(items: Sequence[JsonObject], path: Sequence[Turn]) -> Mapping[int, list[JsonObject]]:
    """What the environment told, by the number of the turn that it stands after."""
    owners: dict[str, list[int]] = {}
    for nth, turn in enumerate(path):
        for item in turn.output:
            for key in _keys(item):
                owners.setdefault(key, []).append(nth)
    by_turn: dict[int, list[JsonObject]] = {}
    current: int | None = None
    number: int | None
    for item in items:
        if item_type(item) in RESULTS:
            number = _owner(owners.get(f"call {item.get('call_id')}"), current)
        elif _is_models(item):
            current = _owner(next((owners[key] for key in _keys(item) if key in owners), None), current)
            continue
        else:
            number = current
        if number is not None:
            by_turn.setdefault(number, []).append(_bare(item))
    return by_turn


def _keys(item: JsonObject) -> Iterator[str]:
    """By what an item of the model's is known again, the surest first."""
    if item.get("id"):
        yield f"id {item['id']}"
    if item_type(item) in CALLS and item.get("call_id"):
        yield f"call {item['call_id']}"


def _owner(numbers: Sequence[int] | None, current: int | None) -> int | None:
    """Call ids may come again in later turns: not before the current one, where that can be."""
    if not numbers:
        return None
    return next((number for number in numbers if current is None or number >= current), numbers[-1])


def _is_models(item: JsonObject) -> bool:
    kind = item_type(item)
    return kind == "reasoning" or kind in CALLS or (kind == "message" and item.get("role", "assistant") == "assistant")


def _bare(item: JsonObject) -> JsonObject:
    return {key: value for key, value in item.items() if key not in TOKEN_FIELDS}


def _placeholder() -> JsonObject:
    tokens = {
        "prompt_token_ids": [PLACEHOLDER_ID],
        "generation_token_ids": [PLACEHOLDER_ID],
        "generation_log_probs": [0.0],
    }
    return {**_message("msg_placeholder"), **tokens}


def _message(item_id: str) -> JsonObject:
    content = [{"type": "output_text", "text": "", "annotations": []}]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content}
