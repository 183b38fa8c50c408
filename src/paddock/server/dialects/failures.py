"""Ways in which an engine's answer is no answer. Whoever called the engine gives them an owner."""

from typing import Any, Literal

AnswerFault = Literal[
    "upstream_unreadable",
    "upstream_no_message",
    "upstream_no_finish_reason",
    "upstream_bad_content",
    "upstream_bad_tool_call",
    "upstream_bad_arguments",
    "upstream_no_tool_call",
    "upstream_filtered",
    "upstream_empty",
    "upstream_zero_usage",
]
"""Kinds of an `UnreadableError`; `docs/endpoints.md` says which answers end in which."""


class UnreadableError(Exception):
    """The answer is not of its dialect's shape, contradicts itself, or ended before it was whole."""

    def __init__(self, why: str, *, kind: AnswerFault = "upstream_unreadable") -> None:
        super().__init__(why)
        self.kind: AnswerFault = kind


class EngineFailedError(Exception):
    """The engine says, in a reply that was well formed, that it failed."""

    def __init__(self, error: Any) -> None:
        self.error: dict[str, Any] = error if isinstance(error, dict) else {"message": str(error)}
        """Its `message`, and `code` or `type` if it gave one."""
        super().__init__(str(self.error.get("message") or self.error.get("code") or "no reason given"))
