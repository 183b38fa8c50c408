"""qwen-code, as measured at version 0.15.10."""

from collections.abc import Sequence

from paddock.lab.fidelity.bench import ScenarioRun
from paddock.lab.fidelity.clients.base import ClientCall, chat_call, function, repair_json, respell
from paddock.lab.fidelity.clients.dialects import ChatClient
from paddock.lab.fidelity.scenarios import PolicyTurn
from paddock.types import JsonObject


class QwenCode(ChatClient):
    """Arguments are written again. A call that is no JSON is repaired and run, and asked for once more in the same
    words; then both sets of calls and results are in the history, under the same call ids."""

    NAME = "qwen_code"
    TOOLS = (function("run_shell_command", "command", "directory"),)

    def answer_items(self, reply: JsonObject, calls: Sequence[ClientCall]) -> list[JsonObject]:
        answer = reply["choices"][0]["message"]
        message: JsonObject = {"role": "assistant", "content": answer.get("content") or ""}
        if answer.get("reasoning_content"):
            message["reasoning_content"] = answer["reasoning_content"]
        if calls:
            arguments = [respell(call.raw) if call.arguments is not None else repair_json(call.raw) for call in calls]
            message["tool_calls"] = [chat_call(call, text) for call, text in zip(calls, arguments, strict=True)]
        return [message]

    async def after_turn(self, run: ScenarioRun, turn: PolicyTurn, calls: Sequence[ClientCall]) -> None:
        if all(call.arguments is not None for call in calls):
            return
        step = self.steps.pop()
        again = await run.send("chat", self.request_body())
        self.steps.append([*step[:1], *self.answer_items(again, self.calls_of(again)), *step[1:], *step[1:]])
