"""Flaws in the form of a turn: tool calls that do not parse, and thinking outside its place.

Source  NeMo-RL, `nemo_rl/environments/nemo_gym.py`: a call's marker left in a message or a thought is a call that did
        not parse; a thinking tag in a message, or one that comes twice in a thought, is malformed thinking. Theirs
        looks at a turn's last item; here at all items, and a function call whose arguments are no JSON object counts
        too: no tool could be called with it.
Errors  none: an item of another shape has no flaw.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

from paddock.training.core.records import Flaw
from paddock.training.core.reward_penalties import RewardPenaltySettings
from paddock.types import JsonObject, Turn
from paddock.types.responses import content_text, item_type


class FlawRules(NamedTuple):
    """The texts to look for: the keys of these names in `env.nemo_gym`. And which penalties there are."""

    invalid_tool_call_patterns: tuple[str, ...] = ("<tool_call>", "</tool_call>", "<function_call>", "</function_call>")
    thinking_tags: tuple[str, ...] = ("<think>", "</think>")
    penalties: RewardPenaltySettings = RewardPenaltySettings()


def flaws_of(turn: Turn, rules: FlawRules) -> Iterator[Flaw]:
    """The flaws of a turn, each kind at most once."""
    if any(_invalid_call(item, rules) for item in turn.output):
        yield Flaw(turn.id, "invalid_tool_call")
    if any(_malformed_thinking(item, rules) for item in turn.output):
        yield Flaw(turn.id, "malformed_thinking")


def _invalid_call(item: JsonObject, rules: FlawRules) -> bool:
    if item_type(item) == "function_call":
        return not _is_object(item.get("arguments"))
    return any(pattern in _text(item) for pattern in rules.invalid_tool_call_patterns)


def _malformed_thinking(item: JsonObject, rules: FlawRules) -> bool:
    allowed = 1 if item_type(item) == "reasoning" else 0
    return any(_text(item).count(tag) > allowed for tag in rules.thinking_tags)


def _text(item: JsonObject) -> str:
    kind = item_type(item)
    if kind == "reasoning":
        return "\n".join(content_text(item.get(key)) for key in ("summary", "content"))
    return content_text(item.get("content")) if kind == "message" else ""


def _is_object(arguments: object) -> bool:
    if not isinstance(arguments, str):
        return False
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False
