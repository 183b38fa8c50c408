"""The dialects as clients speak them: the bases of programs, which keep an answer as it came.

Class   what a program keeps of an answer, and how it tells results, are the last methods of its dialect's base.
"""

from collections.abc import Sequence
from typing import ClassVar

import orjson

from paddock.lab.fidelity.bench import MODEL
from paddock.lab.fidelity.clients.base import CallResult, ClientCall, SimulatedClient
from paddock.lab.fidelity.scenarios import PROMPT, SYSTEM
from paddock.types import JsonObject

TITLE = "Write a title for this conversation."


class ResponsesClient(SimulatedClient):
    """Speaks Responses: all items back as they came."""

    DIALECT = "responses"
    PARAMS: ClassVar[JsonObject] = {"store": False}

    def opening_items(self) -> list[JsonObject]:
        return [{"role": "system", "content": SYSTEM}, *self.user_items(PROMPT)]

    def request_body(self) -> JsonObject:
        return {"model": MODEL, "input": self.history, "tools": list(self.TOOLS), **self.PARAMS}

    def side_request(self) -> JsonObject:
        return {
            "model": MODEL,
            "input": [{"role": "system", "content": TITLE}, *self.user_items(PROMPT)],
            **self.PARAMS,
        }

    def calls_of(self, reply: JsonObject) -> list[ClientCall]:
        calls = []
        for item in reply["output"]:
            if item["type"] == "function_call":
                calls.append(ClientCall(item["call_id"], item["name"], item["arguments"]))
            elif item["type"] == "custom_tool_call":
                calls.append(ClientCall(item["call_id"], item["name"], item["input"], custom=True))
        return calls

    def answer_items(self, reply: JsonObject, calls: Sequence[ClientCall]) -> list[JsonObject]:
        return [sent for item in reply["output"] for sent in self.sent_item(item)]

    def result_items(self, results: Sequence[CallResult]) -> list[JsonObject]:
        return [
            {
                "type": "custom_tool_call_output" if result.call.custom else "function_call_output",
                "call_id": result.call.call_id,
                "output": self.output(result),
            }
            for result in results
        ]

    def user_items(self, text: str) -> list[JsonObject]:
        return [{"role": "user", "content": text}]

    def sent_item(self, item: JsonObject) -> list[JsonObject]:
        """What is kept of one."""
        return [item]

    def output(self, result: CallResult) -> str:
        return result.text


class ChatClient(SimulatedClient):
    """Speaks Chat Completions: the message back as it came."""

    DIALECT = "chat"
    PARAMS: ClassVar[JsonObject] = {"temperature": 1.0}
    SYSTEM_ROLE: ClassVar[str] = "system"

    def opening_items(self) -> list[JsonObject]:
        return [{"role": self.SYSTEM_ROLE, "content": SYSTEM}, *self.user_items(PROMPT)]

    def request_body(self) -> JsonObject:
        tools = [
            {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}
            for tool in self.TOOLS
        ]
        return {"model": MODEL, "messages": self.history, "tools": tools, **self.PARAMS}

    def side_request(self) -> JsonObject:
        return {
            "model": MODEL,
            "messages": [{"role": "system", "content": TITLE}, *self.user_items(PROMPT)],
            **self.PARAMS,
        }

    def calls_of(self, reply: JsonObject) -> list[ClientCall]:
        calls = reply["choices"][0]["message"].get("tool_calls") or []
        return [ClientCall(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls]

    def answer_items(self, reply: JsonObject, calls: Sequence[ClientCall]) -> list[JsonObject]:
        return [reply["choices"][0]["message"]]

    def result_items(self, results: Sequence[CallResult]) -> list[JsonObject]:
        return [
            {"role": "tool", "tool_call_id": result.call.call_id, "content": self.output(result)} for result in results
        ]

    def user_items(self, text: str) -> list[JsonObject]:
        return [{"role": "user", "content": text}]

    def output(self, result: CallResult) -> str:
        return result.text


class MessagesClient(SimulatedClient):
    """Speaks Messages: the content blocks back as they came, the cache mark on the last message."""

    DIALECT = "messages"
    PARAMS: ClassVar[JsonObject] = {"max_tokens": 4096}

    def opening_items(self) -> list[JsonObject]:
        return self.user_items(PROMPT)

    def request_body(self) -> JsonObject:
        tools = [
            {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
            for tool in self.TOOLS
        ]
        *before, last = self.history
        content = [*last["content"][:-1], {**last["content"][-1], "cache_control": {"type": "ephemeral"}}]
        system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]
        messages = [*before, {**last, "content": content}]
        return {"model": MODEL, "system": system, "messages": messages, "tools": tools, **self.PARAMS}

    def side_request(self) -> JsonObject:
        return {"model": MODEL, "system": TITLE, "messages": self.user_items(PROMPT), **self.PARAMS}

    def calls_of(self, reply: JsonObject) -> list[ClientCall]:
        blocks = [block for block in reply["content"] if block["type"] == "tool_use"]
        return [ClientCall(block["id"], block["name"], orjson.dumps(block["input"]).decode()) for block in blocks]

    def answer_items(self, reply: JsonObject, calls: Sequence[ClientCall]) -> list[JsonObject]:
        return [{"role": "assistant", "content": [self.sent_block(block) for block in reply["content"]]}]

    def result_items(self, results: Sequence[CallResult]) -> list[JsonObject]:
        blocks = [
            {"type": "tool_result", "tool_use_id": result.call.call_id, "content": result.text}
            | ({"is_error": True} if result.failed else {})
            for result in results
        ]
        return [{"role": "user", "content": blocks}]

    def user_items(self, text: str) -> list[JsonObject]:
        return [{"role": "user", "content": [{"type": "text", "text": text}]}]

    def sent_block(self, block: JsonObject) -> JsonObject:
        """As it is sent back."""
        return block
