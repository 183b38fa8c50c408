"""Token counts in the two dialects. Readers take any JSON: what is no count is 0, no counts at all are None."""

from typing import Any

from paddock.server.dialects.answers import TokenCounts
from paddock.types import JsonObject


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


def chat_usage(counts: TokenCounts) -> JsonObject:
    return {
        "prompt_tokens": counts.input_tokens,
        "completion_tokens": counts.output_tokens,
        "total_tokens": counts.input_tokens + counts.output_tokens,
        "prompt_tokens_details": {"cached_tokens": counts.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning_tokens},
    }


def responses_usage(counts: TokenCounts) -> JsonObject:
    return {
        "input_tokens": counts.input_tokens,
        "input_tokens_details": {"cached_tokens": counts.cached_tokens},
        "output_tokens": counts.output_tokens,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning_tokens},
        "total_tokens": counts.input_tokens + counts.output_tokens,
    }


def _count(holder: Any, key: str) -> int:
    return _counted(holder, key) or 0


def _counted(holder: Any, key: str) -> int | None:
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
