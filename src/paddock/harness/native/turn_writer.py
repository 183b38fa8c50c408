"""Writes turns as a policy would have made them: for oracles.

Turns   a list of output items each; every call gets an id of its own, so that the same turns may be played again.
"""

import orjson

from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item, new_id


class TurnWriter:
    """Collects turns, each a list of output items."""

    def __init__(self) -> None:
        self.turns: list[list[JsonObject]] = []

    def call(self, tool: str, **arguments: object) -> None:
        """Add a turn that calls one function tool, by its real name."""
        self.turns.append([call_item(tool, orjson.dumps(arguments).decode())])

    def custom(self, tool: str, text: str) -> None:
        """Add a turn that calls one custom tool."""
        item: JsonObject = {"type": "custom_tool_call", "id": new_id("ctc"), "call_id": new_id("call")}
        self.turns.append([{**item, "name": tool, "input": text, "status": "completed"}])

    def say(self, text: str) -> None:
        """Add a turn with a message and no call."""
        self.turns.append([message_item(text)])
