"""Claims about a server that reads answers by their format: streamed or whole, an answer has the same items."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.models import asking
from tests.support.streams import read_responses_stream

from paddock.models_servers.function.server import FunctionConfig, FunctionServer
from paddock.server.exact.functions import Completion, registered
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary, write_model_folder
from paddock.types import JsonObject

TOOL = {
    "type": "function",
    "name": "bash",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
}
HERMES = '<tool_call>\n{"name": "bash", "arguments": {"command": "ls é"}}\n</tool_call>'
CODER = "<tool_call>\n<function=bash>\n<parameter=command>\nls é\n</parameter>\n</function>\n</tool_call>"
CASES = {
    "hermes": f"<think>\nso 🎈\n</think>\n\nI look.\n{HERMES}\n{HERMES}",
    "qwen3_coder": f"so 🎈\n</think>\n\nI look.\n{CODER}\nAnd more. {CODER}",
    "glm45": "<think>so 🎈</think>\nI look.<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls é</arg_value>",
}


@pytest.mark.parametrize("tool_parser", CASES)
async def test_streamed_or_whole_an_answer_has_the_same_items(tool_parser: str, tmp_path: Path) -> None:
    sampled = [*small_vocabulary().encode(CASES[tool_parser]), *small_vocabulary().encode("<|im_end|>")]

    async def sample(ids: list[int], sampling: JsonObject, *, rollout: str | None) -> AsyncIterator[Completion]:
        for token in sampled[:-1]:
            yield Completion([token], [-0.5], None)
        yield Completion(sampled[-1:], [-0.5], "stop")

    registration = registered(sample)
    folder = write_model_folder(tmp_path / "model", chat_template=TEMPLATES["chatml"].source)
    config = {
        "function": registration.name,
        "tokenizer": folder,
        "tool_parser": tool_parser,
        "reasoning_parser": "qwen3",
        "turn_store": {"folder": tmp_path / "turns"},
    }
    request: JsonObject = {"input": [{"role": "user", "content": "go"}], "tools": [TOOL]}
    try:
        async with asking(
            "direct", FunctionServer(FunctionConfig.model_validate(config), name="policy", peers={})
        ) as client:
            whole = await client.ask("responses", request)
            streamed = await client.ask("responses", {**request, "stream": True})
            plain = await client.ask("responses", {"input": request["input"]})
    finally:
        registration.close()
    items = _items(whole.body)
    assert items == _items(read_responses_stream(streamed.stream))
    called = ["function_call"] * (0 if tool_parser == "glm45" else 2)
    assert [item["type"] for item in items] == ["reasoning", "message", *called]
    assert [item["type"] for item in _items(plain.body)] == ["reasoning", "message"], "without tools nothing is a call"


def _items(response: JsonObject) -> list[Any]:
    """Items without the ids that each answer has of its own."""
    return [{key: value for key, value in item.items() if key not in ("id", "call_id")} for item in response["output"]]
