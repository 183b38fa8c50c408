"""OpenHands SDK, as measured at version 1.58.0, in both of its modes."""

from collections.abc import Sequence

import orjson

from paddock.lab.fidelity.clients.base import CallResult, ClientCall, chat_call, function
from paddock.lab.fidelity.clients.dialects import ChatClient, ResponsesClient
from paddock.types import JsonObject

_TOOLS = (
    function("terminal", "command", "is_input", "summary", "security_risk"),
    function("file_editor", "command", "path"),
    function("finish", "message"),
)
_MALFORMED = "_openhands_malformed_tool_call"


def _history_arguments(call: ClientCall) -> str:
    """Arguments in the history."""
    if call.arguments is not None:
        return call.raw
    return orjson.dumps({_MALFORMED: True, "raw": call.raw}).decode()


class OpenhandsChat(ChatClient):
    """Reasoning is not sent back. Malformed arguments are replaced by an object that says so, and the calls of that
    turn are split into messages of their own, each before its result."""

    NAME = "openhands"
    TOOLS = _TOOLS

    def answer_items(self, reply: JsonObject, calls: Sequence[ClientCall]) -> list[JsonObject]:
        content = reply["choices"][0]["message"].get("content") or ""
        if not calls:
            return [{"role": "assistant", "content": content}]
        entries = [chat_call(call, _history_arguments(call)) for call in calls]
        if all(call.arguments is not None for call in calls):
            return [{"role": "assistant", "content": content, "tool_calls": entries}]
        texts = [content, *[""] * (len(entries) - 1)]
        return [
            {"role": "assistant", "content": text, "tool_calls": [entry]}
            for text, entry in zip(texts, entries, strict=True)
        ]

    def result_items(self, results: Sequence[CallResult]) -> list[JsonObject]:
        items = super().result_items(results)
        answer_items = self.steps[-1]
        if len(answer_items) == 1:
            return items
        last = answer_items.pop()
        self.steps[-1] = [item for pair in zip(answer_items, items, strict=False) for item in pair]
        return [last, items[-1]]


class OpenhandsResponses(ResponsesClient):
    """Reasoning goes back with its id, content and summary; messages without their id and with their text stripped;
    calls with call id and raw arguments."""

    NAME = "openhands"
    TOOLS = _TOOLS

    def sent_item(self, item: JsonObject) -> list[JsonObject]:
        if item["type"] == "message":
            texts = [{"type": "output_text", "text": part["text"].strip()} for part in item["content"]]
            return [{"type": "message", "role": "assistant", "content": texts}]
        if item["type"] == "function_call":
            return [{key: item[key] for key in ("type", "call_id", "name", "arguments")}]
        return [{key: item[key] for key in ("type", "id", "summary", "content") if key in item}]
