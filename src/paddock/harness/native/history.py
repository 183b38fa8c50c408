"""The history of a run, and which part of it the next request shows.

Law     history only grows. The first messages are fixed; a step is the model's items, the results of its calls, and
        what the harness adds as a user. Items are sent back as the model gave them, so that a model server knows them.
Context a `ContextPolicy` chooses what of it goes into the next request. What it returns is what the model sees: each
        choice that does not continue the one before starts a branch in the turn tree.
"""

from collections.abc import Sequence
from typing import Protocol

from paddock.types import JsonObject, Usage


class History:
    """The history of one run."""

    def __init__(self, fixed: Sequence[JsonObject]) -> None:
        self.fixed = list(fixed)
        """System and problem: always shown."""
        self.steps: list[list[JsonObject]] = []
        self._items = list(fixed)

    def add(self, items: Sequence[JsonObject]) -> None:
        """Add a step."""
        self.steps.append(list(items))
        self._items += items

    def note(self, text: str) -> None:
        """Add a user message to the last step."""
        item: JsonObject = {"role": "user", "content": text}
        (self.steps[-1] if self.steps else self.fixed).append(item)
        self._items.append(item)

    def items(self) -> list[JsonObject]:
        """Return all items, in a list of the caller's own."""
        return self._items.copy()


class ContextPolicy(Protocol):
    """Chooses what the model is shown, in one rollout."""

    def fit(self, history: History) -> list[JsonObject]:
        """Return the `input` of the next request. Raises ContextExceeded where no choice fits."""
        ...

    def record_usage(self, usage: Usage) -> None:
        """Take what the engine counted for the last request and its answer; zeros where it does not count."""
        ...


class FullContext:
    """Shows the whole history."""

    def fit(self, history: History) -> list[JsonObject]:
        return history.items()

    def record_usage(self, usage: Usage) -> None:
        return
