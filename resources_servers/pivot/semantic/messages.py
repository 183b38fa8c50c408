"""Judging a response where the expert spoke and called nothing.

Law     passes when the response is complete, calls no tool, says something, and what it says is free of tool-call
        markup outside fenced code and backticks: a call that was written as text is no message. The content is not
        compared: of many good answers the expert gave one.
Errors  none; any JSON is judged.
"""

import json
from collections.abc import Iterator

from paddock.resources_servers.pivot.semantic.findings import SAME, Finding, differ

MARKUP: tuple[str, ...] = (
    "<tool_call",
    "</tool_call",
    "<tool_use",
    "</tool_use",
    "<tool_code",
    "<function_call",
    "</function_call",
    "<function=",
    "</function>",
    "<parameter=",
    "</parameter>",
    "<invoke",
    "</invoke",
    "<|tool_call",
    "<|python_tag|>",
    "<|channel|>",
    "<|call|>",
    "[tool_calls]",
    "<｜tool",
)
"""How the chat templates of open models write a call; looked for in lower case."""


def judge_message(texts: list[str]) -> Finding:
    """Whether the texts of a response's messages make a message."""
    if not any(text.strip() for text in texts):
        return differ("message_empty", "expected a message, came one without text")
    found = next((mark for text in texts for mark in markup_in(text)), None)
    if found is not None:
        return differ("message_markup", f"expected a message, came a tool call written as text ({found})")
    return SAME


def markup_in(text: str) -> Iterator[str]:
    """The marks of tool calls in a text, outside of its code."""
    outside = "\n".join(_unquoted(part) for part in _outside(text, "```")).lower()
    yield from (mark for mark in MARKUP if mark in outside)
    if text.lstrip().startswith("{") and _is_call(text):
        yield "a JSON call"


def _outside(text: str, fence: str) -> list[str]:
    """The parts outside of pairs of fences; a fence without its second hides nothing."""
    parts = text.split(fence)
    return parts[0::2] if len(parts) % 2 else [*parts[0::2], parts[-1]]


def _unquoted(text: str) -> str:
    if "`" not in text:
        return text
    return "\n".join(" ".join(_outside(line, "`")) for line in text.split("\n"))


def _is_call(text: str) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "name" in value and ("arguments" in value or "parameters" in value)
