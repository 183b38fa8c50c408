"""What makes an answer valid: the rules that whole and streamed answers of every dialect have to pass.

Law     an answer that no honest engine gives is no answer: a field of another type is never read as an empty one, and
        silence counts only where tokens were sampled for it. What a model can cause passes: empty text, arguments that
        are no JSON or end in the middle, tools that do not exist.
Shapes  a delta of a stream has to pass the rules of a whole message, but for a call that goes on.
Errors  UnreadableError, by kind; EngineFailedError wherever an `error` stands.
"""

from collections.abc import Sequence, Set
from typing import Any

from paddock.server.dialects.failures import AnswerFault, EngineFailedError, UnreadableError
from paddock.types import FinishReason, JsonObject
from paddock.types.responses import (
    CALLS,
    ShapeField,
    ShapeProblem,
    arguments_problem,
    content_problem,
    content_text,
    item_problem,
    item_type,
    name_problem,
    reasoning_text,
)

_TEXTS = ("content", "reasoning", "reasoning_content")
"""Of a chat message: a text, or a list of parts."""
_TEXT_FIELDS = (*_TEXTS, "refusal", "tool_calls")
_KINDS: dict[ShapeField, AnswerFault] = {
    "output": "upstream_no_message",
    "item": "upstream_bad_content",
    "content": "upstream_bad_content",
    "name": "upstream_bad_tool_call",
    "arguments": "upstream_bad_arguments",
}


def require_no_error(*holders: JsonObject) -> None:
    """An `error` that is not null or empty is the engine's failure, whatever stands beside it."""
    for holder in holders:
        if holder.get("error"):
            raise EngineFailedError(holder["error"])


def require_message(message: JsonObject, open_calls: Set[Any] = frozenset()) -> None:
    """`message`: of a choice, or a stream's delta. `open_calls`: indices of the calls that a delta may go on with."""
    require_no_error(message)
    for key in _TEXTS:
        _require(content_problem(message.get(key), f"message.{key}"))
    if message.get("text") is not None:
        raise UnreadableError("message.text: a chat message has its text in `content`", kind="upstream_bad_content")
    if not isinstance(message.get("refusal"), str | None):
        raise _of_another_type("message.refusal", message["refusal"], "a text", "upstream_bad_content")
    calls = message.get("tool_calls")
    if calls is None:
        return
    if not isinstance(calls, list):
        raise _of_another_type("message.tool_calls", calls, "a list", "upstream_bad_tool_call")
    for nth, call in enumerate(calls):
        _require_call(call, f"message.tool_calls.{nth}", open_calls)


def gives_text(message: JsonObject) -> bool:
    """Whether a message or delta has a field in which a model's words or calls may stand, empty or not."""
    return any(key in message for key in _TEXT_FIELDS)


def require_item(item: Any, nth: int) -> None:
    """An item of a Responses object's `output`, once it is whole."""
    if isinstance(item, dict) and item_type(item) in ("message", *CALLS):
        require_no_error(item)
    _require(item_problem(item, f"output.{nth}"))


def require_ending(
    finish_reason: FinishReason | None,
    output: Sequence[JsonObject],
    *,
    output_tokens: int | None,
    text_given: bool = True,
    refused: bool = False,
) -> None:
    """Check the output against the finish reason and the token count. `output_tokens` None: nobody counted.
    `text_given`: there was a field for text or calls. `refused`: there was a refusal, which is no item."""
    called = any(item_type(item) in CALLS for item in output)
    if finish_reason == "tool_calls" and not called:
        raise UnreadableError("it ended with `tool_calls`, but has no call", kind="upstream_no_tool_call")
    if called or refused or any(map(_has_content, output)):
        if output_tokens == 0:
            raise UnreadableError("it says something in 0 sampled tokens", kind="upstream_zero_usage")
        return
    if finish_reason == "content_filter":
        raise UnreadableError("a content filter left nothing of it", kind="upstream_filtered")
    if not text_given:
        raise UnreadableError("the message has neither `content` nor `tool_calls`", kind="upstream_bad_content")
    # Without a count, an empty answer that its budget ended is how NeMo-Gym tells of a prompt that is too long.
    if output_tokens == 0 or (output_tokens is None and finish_reason != "length"):
        raise UnreadableError("it says nothing, and no sampled token was counted", kind="upstream_empty")


def _has_content(item: JsonObject) -> bool:
    kind = item_type(item)
    if kind == "message":
        content = item.get("content")
        refused = isinstance(content, list) and any(isinstance(part, dict) and part.get("refusal") for part in content)
        return refused or bool(content_text(content))
    return bool(reasoning_text(item) or item.get("encrypted_content")) if kind == "reasoning" else True


def _require_call(call: Any, path: str, open_calls: Set[Any]) -> None:
    if not isinstance(call, dict) or not isinstance(call.get("function"), dict):
        raise UnreadableError(f"{path}: a call needs an object `function`", kind="upstream_bad_tool_call")
    for key, wanted in (("index", int), ("id", str)):
        if not isinstance(call.get(key), wanted | None):
            raise _of_another_type(f"{path}.{key}", call[key], wanted.__name__, "upstream_bad_tool_call")
    function = call["function"]
    if call.get("index") not in open_calls:
        _require(name_problem(function.get("name"), f"{path}.function.name"))
    _require(arguments_problem(function.get("arguments"), f"{path}.function.arguments"))


def _require(problem: ShapeProblem | None) -> None:
    if problem is not None:
        raise UnreadableError(str(problem), kind=_KINDS[problem.field])


def _of_another_type(path: str, value: Any, wanted: str, kind: AnswerFault) -> UnreadableError:
    return UnreadableError(f"{path}: needs {wanted}, got {type(value).__name__}", kind=kind)
