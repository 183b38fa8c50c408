"""Calls as Hermes 2 Pro, Qwen2.5 and Qwen3 write them: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`."""

from collections.abc import Sequence

from paddock.server.exact.parsers.calls import AnswerCall, CallFormat
from paddock.server.exact.parsers.values import make_call, parse_json
from paddock.types import JsonObject

START, END = "<tool_call>", "</tool_call>"


def _read(block: str, tools: Sequence[JsonObject]) -> list[AnswerCall]:
    call = parse_json(block.removeprefix(START).removesuffix(END))
    if not isinstance(call, dict):
        raise ValueError("no object")
    return [make_call(call.get("name"), call.get("arguments"))]


HERMES = CallFormat({START: END}, _read)
