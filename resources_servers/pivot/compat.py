"""NeMo-Gym's single-step comparator, reward for reward: the policy's action against the expert's, argument by argument.

Law     only `function_call` items count; any call hides the text; the first assistant `output_text` is the message.
Kept    defects of that contract, so that published rewards stay comparable: an empty message earns a message's reward;
        `true` matches 1 but 1 does not match 1.0; a missing or surplus optional key earns 0; identical multi-word
        strings are only 0.5 alike, so a threshold over 0.5 refuses them all and one of 0.0 accepts any two; word order
        and indentation are never seen; with `parallel_tool_call_rewarding` off, surplus calls are free.
Apart   an expected action that does not decode is the row's error, never scored; arguments nested deeper than 200
        levels do not decode.
Errors  none on any JSON.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import Field

from paddock.resources_servers.pivot.assignment import maximum_matching
from paddock.resources_servers.pivot.task import (
    ActionComparison,
    ExpectedAction,
    ExpectedCall,
    ExpectedMessage,
    expected_calls,
)
from paddock.tools import decode_lenient
from paddock.types import Json, JsonObject, Record
from paddock.types.responses import item_type, output_items

Reason = Literal[
    "no_action",
    "call_expected",
    "message_match",
    "message_expected",
    "tool_differs",
    "arguments_invalid",
    "type_differs",
    "keys_differ",
    "list_length_differs",
    "value_differs",
    "match",
    "batch_length_differs",
    "batch_match",
]

CATEGORIES: dict[Reason, str] = {
    "no_action": "No tool call or chat message was found in the response",
    "call_expected": "No tool call was found when one was expected",
    "message_match": "A chat message was found as expected",
    "message_expected": "A tool call was executed when a chat message was expected",
    "tool_differs": "The tool in a tool call is not the expected tool",
    "arguments_invalid": "An error occurred when decoding the arguments string in a tool call as a JSON object",
    "type_differs": "The type of an argument value in a tool call is different than the expected type",
    "keys_differ": (
        "The keys in an object in an argument value in a tool call are different than the keys in the expected object"
    ),
    "list_length_differs": ("A list in an argument value in a tool call has a different length than the expected list"),
    "value_differs": "An argument value in a tool call is different than the expected value",
    "match": "A tool call that matches the expected tool call was found",
    "batch_length_differs": "The number of tool calls in a batch is different than expected",
    "batch_match": "A tool-call batch that matches the expected tool calls was found",
}
"""Wire values of the reply's `category`, one per reason: users filter on these sentences."""


class CompatOptions(Record):
    """The keys of NeMo-Gym's `tool_call_comparator_config`, with its defaults; the first one has none there."""

    word_count_similarity_threshold: float = Field(default=0.1, ge=0, allow_inf_nan=False)
    """Share of common words, from 0 to 0.5, that two multi-word strings need. 0: any two match."""
    floating_point_comparison_threshold: float = Field(default=1e-6, ge=0, allow_inf_nan=False)
    """Absolute difference under which two floats match. 0: no two match."""
    parallel_tool_call_rewarding: bool = False
    """Whether the number of calls counts. False: 1 if every expected call is there, and the next three are unused."""
    allow_subset: bool = False
    """Whether fewer calls than expected may earn anything."""
    allow_superset: bool = False
    """Whether more calls than expected may earn anything."""
    parallel_tool_call_reward_mode: Literal["binary_strict", "fractional", "f1"] = "binary_strict"
    """All required calls or nothing; their matched share; or 2 x matched / (expected + actual)."""


class _Call(NamedTuple):
    name: str
    arguments: Json
    """Decoded; the error as a text where `invalid`."""
    invalid: bool


class _Miss(NamedTuple):
    reason: Reason
    detail: str


def compare(expected: ExpectedAction, response: object, options: CompatOptions) -> ActionComparison:
    """Judge the response's action; `extras` carries the wire's `category`."""
    actual = _calls(response)
    if not actual and not _has_message(response):
        return _result(0.0, "no_action")
    if isinstance(expected, ExpectedMessage):
        if actual:
            return _result(0.0, "message_expected", f"called {actual[0].name!r}")
        return _result(1.0, "message_match")
    wanted = expected_calls(expected)
    if not actual:
        return _result(0.0, "call_expected", f"expected a call of {wanted[0].name!r}")
    return _compare_calls([_expected(call) for call in wanted], actual, options)


def _result(reward: float, reason: Reason, detail: str = "") -> ActionComparison:
    return ActionComparison(reward, reason, detail, extras={"category": CATEGORIES[reason]})


def _expected(call: ExpectedCall) -> _Call:
    return _Call(call.name, call.decoded, invalid=False)


def _calls(response: object) -> list[_Call]:
    return [_call(item) for item in output_items(response) if item_type(item) == "function_call"]


def _call(item: JsonObject) -> _Call:
    name, raw = item.get("name"), item.get("arguments")
    name = name if isinstance(name, str) else ""
    try:
        return _Call(name, decode_lenient(raw if isinstance(raw, str) else ""), invalid=False)
    except ValueError as error:
        return _Call(name, str(error), invalid=True)


def _has_message(response: object) -> bool:
    return any(
        _has_text(item.get("content"))
        for item in output_items(response)
        if item_type(item) == "message" and item.get("role", "assistant") == "assistant"
    )


def _has_text(content: Json) -> bool:
    if not isinstance(content, list):
        return isinstance(content, str)
    return any(
        isinstance(part, dict) and part.get("type") == "output_text" and isinstance(part.get("text"), str)
        for part in content
    )


def _compare_calls(expected: list[_Call], actual: list[_Call], options: CompatOptions) -> ActionComparison:
    if len(expected) == len(actual) == 1:
        miss = _call_miss(expected[0], actual[0], options)
        return _result(0.0, miss.reason, miss.detail) if miss else _result(1.0, "match")
    counts = f"{len(expected)} calls expected, {len(actual)} made"
    if not _count_allowed(len(expected), len(actual), options):
        return _result(0.0, "batch_length_differs", counts)
    misses = [[_call_miss(call, other, options) for other in actual] for call in expected]
    matched = maximum_matching([[index for index, miss in enumerate(line) if miss is None] for line in misses])
    reward = _reward(len(matched), len(expected), len(actual), options)
    if reward == 1.0:
        return _result(1.0, "match" if len(expected) == 1 else "batch_match")
    unmatched = sorted(set(range(len(expected))) - set(matched.values()))
    if not unmatched or len(matched) == len(actual):
        return _result(reward, "batch_length_differs", counts)
    miss = _nearest(misses[unmatched[0]])
    return _result(reward, miss.reason, f"call {unmatched[0] + 1} of {len(expected)}: {miss.detail}")


def _count_allowed(expected: int, actual: int, options: CompatOptions) -> bool:
    if actual == expected or not options.parallel_tool_call_rewarding:
        return True
    return options.allow_subset if actual < expected else options.allow_superset


def _reward(matched: int, expected: int, actual: int, options: CompatOptions) -> float:
    if not options.parallel_tool_call_rewarding:
        return float(matched == expected)
    if options.parallel_tool_call_reward_mode == "f1":
        return 2 * matched / (expected + actual)
    required = min(expected, actual) if options.allow_subset else expected
    if options.parallel_tool_call_reward_mode == "fractional":
        return matched / required
    return float(matched == required)


def _nearest(misses: Sequence[_Miss | None]) -> _Miss:
    """Return why an expected call found no partner: the first reason that got past the tool's name."""
    real = [miss for miss in misses if miss]
    past_name = [miss for miss in real if miss.reason != "tool_differs"]
    return (past_name or real or [_Miss("tool_differs", "every match was taken by another expected call")])[0]


def _call_miss(expected: _Call, actual: _Call, options: CompatOptions) -> _Miss | None:
    if expected.name != actual.name:
        return _Miss("tool_differs", f"expected tool {expected.name!r}, got {actual.name!r}")
    if actual.invalid:
        return _Miss("arguments_invalid", f"{actual.name}: {actual.arguments}")
    return _value_miss(expected.arguments, actual.arguments, actual.name, options)


def _value_miss(expected: Json, actual: Json, where: str, options: CompatOptions) -> _Miss | None:
    if not isinstance(actual, type(expected)):
        return _Miss("type_differs", f"{where}: expected {_short(expected)}, got {_short(actual)}")
    if isinstance(expected, dict):
        if expected.keys() != actual.keys():
            keys = ", ".join(sorted(_short(key) for key in expected.keys() ^ actual.keys()))
            return _Miss("keys_differ", f"{where}: on one side only: {keys}")
        for key, value in expected.items():
            if miss := _value_miss(value, actual[key], f"{where}.{key}", options):
                return miss
    elif isinstance(expected, list):
        if len(expected) != len(actual):
            return _Miss("list_length_differs", f"{where}: expected {len(expected)} items, got {len(actual)}")
        for index, value in enumerate(expected):
            if miss := _value_miss(value, actual[index], f"{where}.{index}", options):
                return miss
    elif not _scalars_match(expected, actual, options):
        return _Miss("value_differs", f"{where}: expected {_short(expected)}, got {_short(actual)}")
    return None


def _scalars_match(expected: Json, actual: Json, options: CompatOptions) -> bool:
    if isinstance(expected, float):
        return bool(abs(actual - expected) < options.floating_point_comparison_threshold)
    if isinstance(expected, str):
        return _strings_match(expected, actual, options.word_count_similarity_threshold)
    return bool(expected == actual)


def _strings_match(expected: str, actual: str, threshold: float) -> bool:
    ours, theirs = expected.lower().split(), actual.lower().split()
    if len(ours) < 2 or len(theirs) < 2:
        return expected == actual
    common = sum((Counter(ours) & Counter(theirs)).values())
    return common / (len(ours) + len(theirs)) >= threshold


def _short(value: Json) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 70 else text[:67] + "..."
