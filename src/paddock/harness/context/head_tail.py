"""Head and tail of a history, within a budget of tokens."""

from paddock.harness.context.settings import ContextSettings
from paddock.harness.native.history import History
from paddock.types import JsonObject, Usage


class HeadTail:
    """Of one rollout."""

    def __init__(self, settings: ContextSettings) -> None:
        self._settings = settings

    def fit(self, history: History) -> list[JsonObject]:
        return history.items()

    def counted(self, usage: Usage) -> None:
        return
