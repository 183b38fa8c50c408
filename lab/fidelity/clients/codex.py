"""Codex CLI, as measured at version 0.169.0."""

from paddock.lab.fidelity.bench import MODEL, ScenarioRun
from paddock.lab.fidelity.clients.base import CallResult, function
from paddock.lab.fidelity.clients.dialects import ResponsesClient
from paddock.lab.fidelity.scenarios import PROMPT, SYSTEM, WORDS
from paddock.types import JsonObject

_ENVIRONMENT = "<environment_context>\n  <cwd>/testbed</cwd>\n  <shell>bash</shell>\n</environment_context>"
_GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /(.|\\n)*/"}
_CHECKPOINT = "You are performing a CONTEXT CHECKPOINT COMPACTION. Sum up what was done."
_SUMMARY = "Another model started on this. Its summary: "


class CodexCli(ResponsesClient):
    """Items go back verbatim, ids and raw arguments included; reasoning with its `encrypted_content`, which is null
    where there was none. The prompt is a developer's message, the environment and the task are two of the user's.
    `apply_patch` is a custom tool. The output of a malformed call says so. A cut answer ends it. It compacts: a request
    without tools for a summary, then a new window of system, environment, task and summary."""

    NAME = "codex_cli"
    CUT_ENDS = True
    PARAMS = {
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "prompt_cache_key": "thread",
    }
    TOOLS = (
        function("exec_command", "cmd", "workdir"),
        {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": _GRAMMAR},
    )

    def opening_items(self) -> list[JsonObject]:
        return [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": SYSTEM}]},
            *self.user_items(_ENVIRONMENT),
            *self.user_items(PROMPT),
        ]

    def user_items(self, text: str) -> list[JsonObject]:
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]

    def sent_item(self, item: JsonObject) -> list[JsonObject]:
        return [{"encrypted_content": None, **item}] if item["type"] == "reasoning" else [item]

    def output(self, result: CallResult) -> str:
        if result.failed:
            return result.text
        return f"Chunk ID: 9f06d7\nWall time: 0.0000 seconds\nProcess exited with code 0\nOutput:\n{result.text}"

    async def forget(self, run: ScenarioRun) -> None:
        request = {"model": MODEL, "input": [*self.history, *self.user_items(_CHECKPOINT)], "tools": [], **self.PARAMS}
        run.branches_by_design += 1  # the request for a summary has other tools: none
        await run.answer_side_request("responses", request, WORDS)
        self.opening = [*self.opening_items(), *self.user_items(_SUMMARY + WORDS)]
        self.steps.clear()
