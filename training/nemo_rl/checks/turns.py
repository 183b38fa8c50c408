"""The turns of a result as NeMo-RL takes them from its items, and the rules that their ids break.

Law     a turn is an item with `generation_token_ids` that are not empty; any other item is as if it were not there.
        `prompt_token_ids` is the whole prompt, which begins with all that was seen: prompts and answers of the turns
        before. Each turn is checked, those after a wrong one too: they are compared with it as it is.
Source  NVIDIA-NeMo/RL, `_postprocess_nemo_gym_to_nemo_rl_result`.
Errors  none for any JSON.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from paddock.training.nemo_rl.checks.routed_experts import routes_shape
from paddock.training.nemo_rl.checks.rules import breach
from paddock.training.nemo_rl.checks.settings import CheckSettings
from paddock.training.nemo_rl.records import Result, Violation
from paddock.types import JsonObject

FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")


class ItemTurn(NamedTuple):
    """One turn of a result. Fields are those of the item, of any type where a rule is broken."""

    item: int
    """Index in `response.output`."""
    nth: int
    body: JsonObject
    """The item."""
    prompt: Any
    """Ids of the whole prompt."""
    sampled: Any
    log_probs: Any


def turns_of(result: Result) -> Iterator[ItemTurn]:
    """The turns of a result whose items are a list of objects."""
    nth = 0
    for index, item in enumerate(result["response"]["output"]):
        if item.get("generation_token_ids"):
            yield ItemTurn(index, nth, item, *(item.get(name) for name in FIELDS))
            nth += 1


def check_turns(result: Result, settings: CheckSettings) -> Iterator[Violation]:
    seen: list[Any] = []
    widths: set[tuple[int, int]] = set()
    n_turns = 0
    for turn in turns_of(result):
        n_turns += 1
        fields = dict(zip(FIELDS, (turn.prompt, turn.sampled, turn.log_probs), strict=True))
        wrong = [name for name, value in fields.items() if not isinstance(value, list)]
        if wrong:
            yield breach("token_fields", f"no list: {', '.join(wrong)}", item=turn.item, turn=turn.nth)
            continue
        for violation in (
            *_check_ids(turn, len(seen), settings),
            *_check_continuation(turn, seen),
            *_check_log_probs(turn),
            *_check_routes(turn, settings, widths),
        ):
            yield violation._replace(item=turn.item, turn=turn.nth)
        seen = [*turn.prompt, *turn.sampled]
    if not n_turns:
        yield breach("trainable", "no item has sampled ids: mask the rollout, with a token in a placeholder")
    longest = settings.max_total_sequence_length
    if longest is not None and len(seen) > longest:
        yield breach("too_long", f"{len(seen)} tokens, {longest} at most", token=longest)


def _check_ids(turn: ItemTurn, n_seen: int, settings: CheckSettings) -> Iterator[Violation]:
    """Checks each id once: those of the turns before (`n_seen`) have been checked."""
    for name, ids, start in (
        ("prompt_token_ids", turn.prompt, min(n_seen, len(turn.prompt))),
        ("generation_token_ids", turn.sampled, 0),
    ):
        new = ids[start:]
        strange = next((nth for nth, value in enumerate(new) if not isinstance(value, int)), None)
        if strange is not None:
            yield breach("integer_ids", f"{name} has {new[strange]!r}, no integer", token=start + strange)
            continue
        limit = settings.vocabulary_size or 2**31
        unknown = next(
            (nth for nth, value in enumerate(new) if isinstance(value, bool) or not 0 <= value < limit), None
        )
        if unknown is not None:
            yield breach("known_ids", f"{name} has {new[unknown]!r}, not from 0 to {limit - 1}", token=start + unknown)


def _check_continuation(turn: ItemTurn, seen: Sequence[Any]) -> Iterator[Violation]:
    start = turn.prompt[: len(seen)]
    if start != seen:
        nth = next((nth for nth, pair in enumerate(zip(seen, start, strict=False)) if pair[0] != pair[1]), len(start))
        there = f"has {start[nth]!r}" if nth < len(start) else "ends"
        yield breach("contiguous", f"the prompt {there} where {seen[nth]!r} was seen before", token=nth)
    elif len(turn.prompt) == len(seen):
        yield breach("new_prompt", "the prompt has no id after what was seen before", token=len(seen))


def _check_log_probs(turn: ItemTurn) -> Iterator[Violation]:
    log_probs = turn.log_probs
    if len(log_probs) != len(turn.sampled):
        shorter = min(len(log_probs), len(turn.sampled))
        yield breach(
            "log_probs_length", f"{len(log_probs)} log-probs for {len(turn.sampled)} sampled ids", token=shorter
        )
    strange = next(
        (nth for nth, value in enumerate(log_probs) if not isinstance(value, int | float) or value != value), None
    )
    if strange is not None:
        yield breach("log_prob_numbers", f"{log_probs[strange]!r} is no log-prob", token=strange)
        return
    infinite = next((nth for nth, value in enumerate(log_probs) if isinstance(value, bool) or math.isinf(value)), None)
    if infinite is not None:
        yield breach("log_probs_finite", f"a log-prob is {log_probs[infinite]!r}", token=infinite)


def _check_routes(turn: ItemTurn, settings: CheckSettings, widths: set[tuple[int, int]]) -> Iterator[Violation]:
    """`widths`: layers and k of the turns before."""
    routes = turn.body.get("routed_experts")
    if routes is None:
        if settings.require_routed_experts:
            yield breach("routed_experts", "there are none, and router replay needs them")
        return
    shape = routes_shape(routes)
    if isinstance(shape, str):
        yield breach("routed_experts", shape)
        return
    widths.add(shape[1:])
    tokens = len(turn.prompt) + len(turn.sampled)
    if shape[0] < tokens:
        yield breach("routed_experts", f"{shape[0]} rows for {tokens} tokens")
    elif len(widths) > 1:
        yield breach("routed_experts", f"layers and k are {shape[1:]}, not those of the turns before")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
