"""pi, as measured at version 0.73.1, in both of its dialects."""

from collections.abc import Sequence

from paddock.lab.fidelity.clients.base import ClientCall, chat_call, repair_json
from paddock.lab.fidelity.clients.dialects import ChatClient, ResponsesClient
from paddock.types import JsonObject


class PiResponses(ResponsesClient):
    """Arguments are written again, malformed ones repaired (and run); reasoning keeps its id and content. Its prompt is
    a developer's."""

    NAME = "pi"

    def opening_items(self) -> list[JsonObject]:
        system, *others = super().opening_items()
        return [{**system, "role": "developer"}, *others]

    def sent_item(self, item: JsonObject) -> list[JsonObject]:
        return [{**item, "arguments": repair_json(item["arguments"])}] if item["type"] == "function_call" else [item]


class PiChat(ChatClient):
    """The same, in Chat: reasoning goes back under the field that it came in."""

    NAME = "pi"
    SYSTEM_ROLE = "developer"

    def answer_items(self, reply: JsonObject, calls: Sequence[ClientCall]) -> list[JsonObject]:
        message = dict(reply["choices"][0]["message"])
        if calls:
            message["tool_calls"] = [chat_call(call, repair_json(call.raw)) for call in calls]
        return [message]
