"""One whole answer of an engine, whatever dialect it came in: output items, token counts, token ids.

Shapes  `output` are Responses API output items with ids of their own; a tool call always has a call id.
Units   counts in tokens; log-probs natural, one per sampled id.
Readers of counts take any JSON: what is no count is 0, no counts at all are None.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from paddock.types import FinishReason, JsonObject, RoutedExperts, WeightSpan

Dialect = Literal["responses", "chat", "messages"]
"""What a client speaks: OpenAI's Responses, OpenAI's Chat Completions, Anthropic's Messages."""


class TokenCounts(NamedTuple):
    """Token counts as the engine reported them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input, read from the engine's prefix cache."""
    reasoning_tokens: int = 0
    """Of the output, spent on reasoning."""


class Tokens(NamedTuple):
    """The very tokens of one call, as the engine gave them."""

    prompt_ids: list[int]
    """The whole prompt."""
    sampled_ids: list[int]
    log_probs: list[float]
    routed_experts: RoutedExperts | None = None
    """Of the tokens from the record's last on, or from an earlier one, to the last but one that was sampled."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one model call gave."""

    output: list[JsonObject]
    finish_reason: FinishReason | None = None
    counts: TokenCounts | None = None
    """None: the engine did not count."""
    model: str | None = None
    """As the engine names it."""
    tokens: Tokens | None = None
    """None: the engine gave no token ids."""
    weight_version: str | None = None
    response: JsonObject = field(default_factory=dict)
    """The engine's own Responses object, when it speaks that dialect: its fields are passed on."""
    weight_spans: tuple[WeightSpan, ...] = ()
    """Which weights sampled which ids, where more than one version did; empty: `weight_version` sampled all."""
    handle: str | None = None
    """Opaque name of this answer, which clients give back with its reasoning; None: they get none. One that is streamed
    gets it from its writer."""
    stop_sequence: str | None = None
    """The client's stop string that ended it; None: none did, or the engine does not say."""

    def with_weight_version(self, version: str | None) -> "Answer":
        """This answer, sampled by the weights of that version."""
        return self if version == self.weight_version else replace(self, weight_version=version)


def read_chat_usage(usage: Any) -> TokenCounts | None:
    if not isinstance(usage, dict):
        return None
    return TokenCounts(
        _count(usage, "prompt_tokens"),
        _count(usage, "completion_tokens"),
        _count(usage.get("prompt_tokens_details"), "cached_tokens"),
        _count(usage.get("completion_tokens_details"), "reasoning_tokens"),
    )


def read_responses_usage(usage: Any) -> TokenCounts | None:
    if not isinstance(usage, dict):
        return None
    return TokenCounts(
        _count(usage, "input_tokens"),
        _count(usage, "output_tokens"),
        _count(usage.get("input_tokens_details"), "cached_tokens"),
        _count(usage.get("output_tokens_details"), "reasoning_tokens"),
    )


def sampled_in_chat(usage: Any) -> int | None:
    """Tokens of an answer; None: nobody counted them."""
    return _counted(usage, "completion_tokens")


def sampled_in_responses(usage: Any) -> int | None:
    return _counted(usage, "output_tokens")


def _count(holder: Any, key: str) -> int:
    return _counted(holder, key) or 0


def _counted(holder: Any, key: str) -> int | None:
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
