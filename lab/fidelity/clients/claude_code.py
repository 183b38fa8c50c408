"""Claude Code, as measured at version 2.1.197."""

from collections.abc import Sequence

from paddock.lab.fidelity.clients.base import CallResult, function
from paddock.lab.fidelity.clients.dialects import MessagesClient
from paddock.types import JsonObject


class ClaudeCode(MessagesClient):
    """Thinking goes back with its signature; arguments that the model left out come back with their defaults
    (`replace_all: false`); the cache mark moves to the last message; reminders stand beside results."""

    NAME = "claude_code"
    PARAMS = {
        "max_tokens": 32000,
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": []},
        "metadata": {"user_id": "user"},
    }
    TOOLS = (function("Bash", "command", "description"), function("Edit", "file_path", "replace_all"))

    def sent_block(self, block: JsonObject) -> JsonObject:
        if block["type"] != "tool_use":
            return block
        return {**block, "input": {**block["input"], "run_in_background": False, "replace_all": False}}

    def result_items(self, results: Sequence[CallResult]) -> list[JsonObject]:
        items = super().result_items(results)
        items[0]["content"].append({"type": "text", "text": "<system-reminder>\nNothing to do.\n</system-reminder>"})
        return items
