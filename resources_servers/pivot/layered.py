"""Layered comparator: kind of tool, arguments, target, likeness of content, size; cheap levels first.

Source  the levels and options of NeMo-Gym's `swe_pivot`; apart from it, nothing passes a level by being malformed,
        empty or missing: what the expert gave and a level needs must be there (`layered_fields` states the law).
Levels  kind (`layered_kinds`); target (`layered_target`); likeness (`layered_similarity`): of an edit the least of old
        and new text, or patch or content; shell: the command; search, find: the pattern; unknown tools: the least over
        all arguments; finish, think, plan: presence alone. Size of an edit, `continuous` only.
Batch   each expected call has at most one partner, paired for the greatest sum; the reward is that sum over the greater
        of both counts, so a surplus call costs what a missing one does. One expected call against several is a batch.
Long    a response of more than `MAX_CHARS` characters is not decided, unless the expert's calls are as long.
Message a non-blank message that no call accompanies and no token budget cut passes.
Reward  in [0, 1]; `binary` is 0 or 1 per call. Errors: none on any JSON.
"""

from collections.abc import Sequence

from paddock.resources_servers.pivot.assignment import best_assignment
from paddock.resources_servers.pivot.layered_fields import DecodedCall
from paddock.resources_servers.pivot.layered_levels import Judgement, LayeredOptions, Reason, judge
from paddock.resources_servers.pivot.task import (
    ActionComparison,
    ExpectedAction,
    ExpectedMessage,
    chars_of,
    expected_calls,
)
from paddock.tools import decode_lenient
from paddock.types import Json, JsonObject
from paddock.types.responses import is_cut, item_type, messages, output_items

__all__ = ["LayeredOptions", "Reason", "compare"]

_PROGRESS: tuple[Reason, ...] = (
    "kind_differs",
    "arguments_invalid",
    "arguments_missing",
    "target_differs",
    "similarity_below_threshold",
    "partial_match",
    "match",
)
"""How far a pair of calls came."""
_WIRE_FAILURES: dict[Reason, str] = {
    "kind_differs": "tool_name_mismatch",
    "target_differs": "target_mismatch",
    "similarity_below_threshold": "similarity_below_threshold",
    "calls_missing": "none",
    "surplus_calls": "none",
    "partial_match": "none",
    "match": "none",
}
"""NeMo-Gym's `failure_reason`; any other reason is `model_output_invalid`."""
_MAX_COMPARED_CALLS = 64
MAX_CHARS = 500_000
"""Characters of a response whose calls are judged, where the expert's own take no more than a quarter of as many."""


def compare(expected: ExpectedAction, response: object, options: LayeredOptions) -> ActionComparison:
    """Judge the response's action; `extras` carries the wire's `tool_name_match`, `target_match`, ..."""
    actual = _calls(response)
    if isinstance(expected, ExpectedMessage):
        return _message(response, actual)
    given = expected_calls(expected)
    wanted = [DecodedCall(call.name, call.decoded) for call in given]
    if not actual:
        spoke = any(text.strip() for text in messages(response))
        detail = f"expected a call of {wanted[0].name!r}"
        return _comparison(Judgement(0.0, "call_expected" if spoke else "no_action", detail))
    chars, most = chars_of(response), max(MAX_CHARS, 4 * sum(len(call.arguments) for call in given))
    if chars > most:
        return _comparison(Judgement(0.0, "too_long", f"not decided: {chars} characters, at most {most} are judged"))
    if len(wanted) == len(actual) == 1:
        return _comparison(judge(wanted[0], actual[0], options))
    return _batch(wanted, actual, options)


def _calls(response: object) -> list[DecodedCall]:
    """Decode a response's calls; a custom tool call's text stands for an argument `input`."""
    calls = []
    for item in output_items(response):
        name = item.get("name") if isinstance(item.get("name"), str) else ""
        if item_type(item) == "function_call":
            calls.append(DecodedCall(str(name), _object(item.get("arguments"))))
        elif item_type(item) == "custom_tool_call":
            calls.append(DecodedCall(str(name), {"input": item.get("input")}))
    return calls


def _object(raw: Json) -> JsonObject | None:
    try:
        value = decode_lenient(raw) if isinstance(raw, str) else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _message(response: object, actual: Sequence[DecodedCall]) -> ActionComparison:
    texts = messages(response)
    if actual:
        return _comparison(Judgement(0.0, "message_expected", f"called {actual[0].name[:60]!r}"))
    if not texts:
        return _comparison(Judgement(0.0, "no_action"))
    if not any(text.strip() for text in texts):
        return _comparison(Judgement(0.0, "message_empty"))
    return _comparison(Judgement(0.0, "message_cut") if is_cut(response) else Judgement(1.0, "match"))


def _batch(expected: list[DecodedCall], actual: list[DecodedCall], options: LayeredOptions) -> ActionComparison:
    """Judge a batch; of very many actual calls the first ones are compared, and the rest still cost."""
    compared = actual[: _MAX_COMPARED_CALLS + len(expected)]
    table = [[judge(call, other, options) for other in compared] for call in expected]
    partners = best_assignment([[judgement.reward for judgement in line] for line in table])
    pairs = [_partner(line, partner) for line, partner in zip(table, partners, strict=True)]
    most = max(len(expected), len(actual))
    reward = min(1.0, sum(pair.reward for pair in pairs if pair) / most)
    counts = f"{len(expected)} calls expected, {len(actual)} made"
    worst = next((pair for pair in pairs if pair and pair.reason != "match"), None)
    if worst:
        reason: Reason = "partial_match" if worst.reward else worst.reason
        return _comparison(worst._replace(reward=reward, reason=reason, detail=f"{counts}; {worst.detail}"))
    first = next(pair for pair in pairs if pair)
    if len(expected) != len(actual):
        reason = "surplus_calls" if len(actual) > len(expected) else "calls_missing"
        return _comparison(first._replace(reward=reward, reason=reason, detail=counts))
    return _comparison(first._replace(reward=reward))


def _partner(line: Sequence[Judgement], partner: int | None) -> Judgement | None:
    """Return the pair's judgement; for a pair that earned nothing, that of the actual call which came nearest."""
    if partner is None:
        return None
    if line[partner].reward:
        return line[partner]
    return max((other for other in line if not other.reward), key=lambda other: _PROGRESS.index(other.reason))


def _comparison(judgement: Judgement) -> ActionComparison:
    return ActionComparison(
        judgement.reward,
        judgement.reason,
        judgement.detail,
        extras={
            "tool_name_match": judgement.kind_match,
            "target_match": judgement.target_match,
            "similarity_score": judgement.likeness,
            "diff_size_penalty": judgement.size_penalty,
            "failure_reason": _WIRE_FAILURES.get(judgement.reason, "model_output_invalid"),
        },
    )
