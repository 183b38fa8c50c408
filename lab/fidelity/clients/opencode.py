"""OpenCode, as measured at version 1.18.33, through each of its three providers."""

from collections.abc import Sequence

import orjson

from paddock.lab.fidelity.clients.base import ClientCall, function, respell
from paddock.lab.fidelity.clients.dialects import ChatClient, MessagesClient, ResponsesClient
from paddock.types import JsonObject

_TOOLS = (function("bash", "command", "description"), function("read", "filePath"), function("write", "filePath"))
_NAMES = [str(tool["name"]) for tool in _TOOLS]


def _invalid(call: ClientCall) -> bool:
    return call.name not in _NAMES or call.arguments is None


def _rewrite_call(call: ClientCall) -> JsonObject:
    """Name and arguments of a call in the history."""
    if _invalid(call):
        error = f"Model tried to call '{call.name}', which can't be done."
        return {"name": "invalid", "arguments": orjson.dumps({"tool": call.name, "error": error}).decode()}
    return {"name": call.name, "arguments": respell(call.raw)}


class OpencodeResponses(ResponsesClient):
    """Through `@ai-sdk/openai`: ids of items are dropped, and reasoning that has no `encrypted_content`; arguments are
    written again, malformed and unknown calls become calls of `invalid` under the same call id."""

    NAME = "opencode_cli"
    TOOLS = _TOOLS

    def answer_items(self, reply: JsonObject, calls: Sequence[ClientCall]) -> list[JsonObject]:
        by_id = {call.call_id: call for call in calls}
        items: list[JsonObject] = []
        for item in reply["output"]:
            if item["type"] == "function_call":
                call = by_id[item["call_id"]]
                items.append({"type": "function_call", "call_id": call.call_id, **_rewrite_call(call)})
            elif item["type"] == "message":
                texts = [{"type": "output_text", "text": part["text"]} for part in item["content"]]
                items.append({"role": "assistant", "content": texts})
            elif item.get("encrypted_content"):
                items.append({key: item[key] for key in ("type", "summary", "encrypted_content")})
        return items


class OpencodeChat(ChatClient):
    """Through `@ai-sdk/openai-compatible`: reasoning goes back as `reasoning_content`; calls as with the others."""

    NAME = "opencode_cli"
    TOOLS = _TOOLS

    def answer_items(self, reply: JsonObject, calls: Sequence[ClientCall]) -> list[JsonObject]:
        answer = reply["choices"][0]["message"]
        message: JsonObject = {"role": "assistant", "content": answer.get("content") or ""}
        if answer.get("reasoning_content"):
            message["reasoning_content"] = answer["reasoning_content"]
        if calls:
            message["tool_calls"] = [
                {"id": call.call_id, "type": "function", "function": _rewrite_call(call)} for call in calls
            ]
        return [message]


class OpencodeMessages(MessagesClient):
    """Through `@ai-sdk/anthropic`: only cache marks move, and calls are rewritten as with the others."""

    NAME = "opencode_cli"
    TOOLS = _TOOLS

    def sent_block(self, block: JsonObject) -> JsonObject:
        if block["type"] != "tool_use":
            return block
        call = _rewrite_call(ClientCall(block["id"], block["name"], orjson.dumps(block["input"]).decode()))
        return {**block, "name": call["name"], "input": orjson.loads(call["arguments"])}
