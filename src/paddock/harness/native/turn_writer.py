"""Writing down turns as a policy would have made them: for oracles.

Turns   a list of output items each; every call gets an id of its own, so that the same turns may be played again.
"""

import orjson

from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item, new_id


class TurnWriter:
    """Collects turns."""

    def __init__(self) -> None:
        self.turns: list[list[JsonObject]] = []

    def call(self, tool: str, **arguments: object) -> None:
        """A turn that calls one function tool, by its real name."""
        self.turns.append([call_item(tool, orjson.dumps(arguments).decode())])

    def custom(self, tool: str, text: str) -> None:
        """A turn that calls one custom tool."""
        item: JsonObject = {"type": "custom_tool_call", "id": new_id("ctc"), "call_id": new_id("call")}
        self.turns.append([{**item, "name": tool, "input": text, "status": "completed"}])

    def say(self, text: str) -> None:
        """A turn that says something and calls nothing."""
        self.turns.append([message_item(text)])
