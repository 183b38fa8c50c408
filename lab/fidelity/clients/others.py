"""Claude Code 2.1.197, mini-swe-agent 2.4.6, pi 0.73.1 and qwen-code 0.15.10, as measured."""

from collections.abc import Sequence

import orjson

from paddock.lab.fidelity.bench import Stage
from paddock.lab.fidelity.clients.base import Heard, Result, function, respelled
from paddock.lab.fidelity.clients.speaking import ChatClient, MessagesClient, ResponsesClient
from paddock.lab.fidelity.scenarios import Turn
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

    def block(self, block: JsonObject) -> JsonObject:
        if block["type"] != "tool_use":
            return block
        return {**block, "input": {**block["input"], "run_in_background": False, "replace_all": False}}

    def told(self, results: Sequence[Result]) -> list[JsonObject]:
        told = super().told(results)
        told[0]["content"].append({"type": "text", "text": "<system-reminder>\nNothing to do.\n</system-reminder>"})
        return told


class MiniSweAgent(ChatClient):
    """One tool; the answer's message goes back with null fields that litellm adds."""

    NAME = "mini_swe_agent"

    def kept(self, reply: JsonObject, calls: Sequence[Heard]) -> list[JsonObject]:
        nulls = {"function_call": None, "provider_specific_fields": None, "annotations": None, "audio": None}
        message = {"content": None, "tool_calls": None, **reply["choices"][0]["message"]}
        return [{**nulls, **message, "extra": {"cost": 0.0}}]


def _repaired(raw: str) -> str:
    """As a lenient reader takes it: what is open is closed."""
    for end in ("", "}", '"}'):
        try:
            return orjson.dumps(orjson.loads(raw + end)).decode()
        except orjson.JSONDecodeError:
            continue
    return "{}"


class PiResponses(ResponsesClient):
    """Arguments are written again, malformed ones repaired (and run); reasoning keeps its id and content. Its prompt is
    a developer's."""

    NAME = "pi"

    def first(self) -> list[JsonObject]:
        system, *others = super().first()
        return [{**system, "role": "developer"}, *others]

    def item(self, item: JsonObject) -> list[JsonObject]:
        return [{**item, "arguments": _repaired(item["arguments"])}] if item["type"] == "function_call" else [item]


class PiChat(ChatClient):
    """The same, in Chat: reasoning goes back under the field that it came in."""

    NAME = "pi"
    SYSTEM_ROLE = "developer"

    def kept(self, reply: JsonObject, calls: Sequence[Heard]) -> list[JsonObject]:
        message = dict(reply["choices"][0]["message"])
        if calls:
            message["tool_calls"] = [_entry(call, _repaired(call.raw)) for call in calls]
        return [message]


class QwenCode(ChatClient):
    """Arguments are written again. A call that is no JSON is repaired and run, and asked for once more in the same
    words; then both sets of calls and results are in the history, under the same call ids."""

    NAME = "qwen_code"
    TOOLS = (function("run_shell_command", "command", "directory"),)

    def kept(self, reply: JsonObject, calls: Sequence[Heard]) -> list[JsonObject]:
        said = reply["choices"][0]["message"]
        message: JsonObject = {"role": "assistant", "content": said.get("content") or ""}
        if said.get("reasoning_content"):
            message["reasoning_content"] = said["reasoning_content"]
        if calls:
            arguments = [respelled(call.raw) if call.arguments is not None else _repaired(call.raw) for call in calls]
            message["tool_calls"] = [_entry(call, text) for call, text in zip(calls, arguments, strict=True)]
        return [message]

    async def answered(self, stage: Stage, turn: Turn, calls: Sequence[Heard]) -> None:
        if all(call.arguments is not None for call in calls):
            return
        step = self.steps.pop()
        again = await stage.send("chat", self.body())
        self.steps.append([*step[:1], *self.kept(again, self.heard(again)), *step[1:], *step[1:]])


def _entry(call: Heard, arguments: str) -> JsonObject:
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
