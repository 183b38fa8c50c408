"""Ways in which an engine's answer is no answer. Whoever called the engine gives them an owner."""

from typing import Any


class UnreadableError(Exception):
    """The answer is not of its dialect's shape, or ended before it was whole."""


class EngineFailedError(Exception):
    """The engine says, in a reply that was well formed, that it failed."""

    def __init__(self, error: Any) -> None:
        self.error: dict[str, Any] = error if isinstance(error, dict) else {"message": str(error)}
        """Its `message`, and `code` or `type` if it gave one."""
        super().__init__(str(self.error.get("message") or self.error.get("code") or "no reason given"))
