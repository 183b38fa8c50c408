"""mini-swe-agent, as measured at version 2.4.6."""

from collections.abc import Sequence

from paddock.lab.fidelity.clients.base import ClientCall
from paddock.lab.fidelity.clients.dialects import ChatClient
from paddock.types import JsonObject


class MiniSweAgent(ChatClient):
    """One tool; the answer's message goes back with null fields that litellm adds."""

    NAME = "mini_swe_agent"

    def answer_items(self, reply: JsonObject, calls: Sequence[ClientCall]) -> list[JsonObject]:
        nulls = {"function_call": None, "provider_specific_fields": None, "annotations": None, "audio": None}
        message = {"content": None, "tool_calls": None, **reply["choices"][0]["message"]}
        return [{**nulls, **message, "extra": {"cost": 0.0}}]
