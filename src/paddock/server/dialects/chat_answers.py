"""An engine's chat completion, whole, as an `Answer`.

Source  OpenAI, "The chat completion object"; reasoning as `reasoning` or `reasoning_content`. Token ids as vLLM gives
        them (`prompt_token_ids` beside `choices`, `token_ids` and `logprobs` in the choice), or on the message
        (`prompt_token_ids`, `generation_token_ids`, `generation_log_probs`).
Law     an answer passes the rules of `answer_rules`, as a stream does. A finish reason that is the engine's own trouble
        is no answer. Ids count only together with one log-prob each, and as many as the engine says it used: a parser
        that held some back would make a sample of something else.
Errors  UnreadableError, EngineFailedError.
"""

import math
from collections.abc import Mapping
from typing import Any

from paddock.server.dialects.answer_rules import gives_text, require_ending, require_message, require_no_error
from paddock.server.dialects.answers import Answer, TokenCounts, Tokens, read_chat_usage, sampled_in_chat
from paddock.server.dialects.chat_items import call_of, reasoning_of
from paddock.server.dialects.failures import EngineFailedError, UnreadableError
from paddock.server.dialects.tools import NO_NAMESPACES
from paddock.types import FinishReason, JsonObject
from paddock.types.responses import content_text, message_item, output_items, reasoning_item

_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


def read_completion(
    body: Any, custom: frozenset[str], namespaces: Mapping[str, tuple[str, str]] = NO_NAMESPACES
) -> Answer:
    """`custom`, `namespaces`: how the tools were offered (`OfferedTools`); their calls are turned back."""
    if not isinstance(body, dict):
        raise UnreadableError("a chat completion is no JSON object")
    require_no_error(body)
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if isinstance(choice, dict):
        require_no_error(choice)
    if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
        raise UnreadableError("a chat completion needs `choices[0].message`", kind="upstream_no_message")
    message: JsonObject = choice["message"]
    require_message(message)
    finish_reason = require_finish_reason(choice.get("finish_reason"))
    counts = read_chat_usage(body.get("usage"))
    tokens = _tokens(body, choice, message, counts)
    output = _output(message, custom, namespaces)
    require_ending(
        finish_reason,
        output,
        output_tokens=len(tokens.sampled_ids) if tokens else sampled_in_chat(body.get("usage")),
        text_given=gives_text(message),
        refused=bool(message.get("refusal")),
    )
    return Answer(
        output,
        finish_reason,
        counts,
        model=_string(body.get("model")),
        tokens=tokens,
        weight_version=_string(body.get("weight_version")),
        stop_sequence=stop_sequence_of(choice),
    )


def has_routed_experts(body: Any) -> bool:
    """Whether NeMo-RL's chat server says which experts each token went through: turns have no place for it."""
    choices = output_items(body.get("choices")) if isinstance(body, dict) else []
    message = choices[0].get("message") if choices else None
    return isinstance(message, dict) and message.get("routed_experts") is not None


def read_finish_reason(given: Any) -> FinishReason | None:
    """None where the engine gives none."""
    if given is None:
        return None
    reason = _FINISH_REASONS.get(str(given))
    if reason is None:
        raise EngineFailedError({"message": f"the engine ended the answer with `{given}`", "code": "aborted"})
    return reason


def require_finish_reason(given: Any) -> FinishReason:
    """Of a whole answer, which has one."""
    reason = read_finish_reason(given)
    if reason is None:
        raise UnreadableError("it has no finish reason", kind="upstream_no_finish_reason")
    return reason


def make_tokens(prompt_ids: Any, sampled_ids: Any, log_probs: Any, counts: TokenCounts | None) -> Tokens | None:
    """None unless all three are there; UnreadableError when they do not fit together."""
    if not prompt_ids or sampled_ids is None or log_probs is None:
        return None
    if not (isinstance(prompt_ids, list) and isinstance(sampled_ids, list) and isinstance(log_probs, list)):
        raise UnreadableError("token ids and log-probs need to be lists")
    if len(sampled_ids) != len(log_probs):
        raise UnreadableError(f"{len(sampled_ids)} token ids, but {len(log_probs)} log-probs")
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in log_probs):
        raise UnreadableError("a log-prob is no finite number")
    if counts is not None and (len(prompt_ids), len(sampled_ids)) != counts[:2]:
        raise UnreadableError(
            f"{len(prompt_ids)} and {len(sampled_ids)} token ids in and out, but usage says "
            f"{counts.input_tokens} and {counts.output_tokens}"
        )
    return Tokens(prompt_ids, sampled_ids, log_probs)


def stop_sequence_of(choice: JsonObject) -> str | None:
    """vLLM's `stop_reason`, where it is a text; it may be a token's id, too."""
    return _string(choice.get("stop_reason"))


def log_probs_of(choice: JsonObject) -> list[float] | None:
    """Log-probs of a choice or a chunk's choice."""
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list):
        return None
    try:
        return [float(entry["logprob"]) for entry in content]
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableError("an entry of `logprobs.content` has no `logprob`") from error


def _output(message: JsonObject, custom: frozenset[str], namespaces: Mapping[str, tuple[str, str]]) -> list[JsonObject]:
    output: list[JsonObject] = []
    thought = reasoning_of(message)
    if thought:
        output.append(reasoning_item(thought))
    text = content_text(message.get("content"))
    if text:
        output.append(message_item(text))
    used_ids: set[str] = set()
    for call in output_items(message.get("tool_calls")):
        function = call.get("function")
        spec = function if isinstance(function, dict) else {}
        call_id = _string(call.get("id"))
        name, arguments = _string(spec.get("name")) or "", _string(spec.get("arguments")) or ""
        output.append(call_of(name, arguments, None if call_id in used_ids else call_id, custom, namespaces))
        used_ids.add(call_id or "")
    return output or [message_item("")]


def _tokens(body: JsonObject, choice: JsonObject, message: JsonObject, counts: TokenCounts | None) -> Tokens | None:
    if "generation_token_ids" in message:
        sampled_ids, log_probs = message["generation_token_ids"], message.get("generation_log_probs")
        return make_tokens(message.get("prompt_token_ids"), sampled_ids, log_probs, counts)
    return make_tokens(body.get("prompt_token_ids"), choice.get("token_ids"), log_probs_of(choice), counts)


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
