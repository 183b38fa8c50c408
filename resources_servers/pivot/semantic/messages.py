"""How a response is judged where the expert spoke and called nothing.

Law     passes when the response is complete, calls no tool, and what it says is near to what the expert said (`texts`)
        and free of tool-call markup outside fenced code and backticks: a call that was written as text is no message.
Errors  none; any JSON is judged.
"""

import json
from collections.abc import Iterator

from paddock.resources_servers.pivot.semantic.match_results import MatchResult, differ
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.texts import compare_spoken
from paddock.tools import has_visible_text

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
    "to=functions.",
    "*** begin patch",
    "<｜tool",
)
"""How the chat templates of open models write a call; looked for in lower case."""


def judge_message(expected: str, texts: list[str], options: SemanticOptions) -> MatchResult:
    """Say whether the texts of a response's messages make a message that may stand for the expert's."""
    if not any(map(has_visible_text, texts)):
        return differ("message_empty", "expected a message, came one without text")
    markup = next((mark for text in texts for mark in markup_in(text)), None)
    if markup is not None:
        return differ("message_markup", f"expected a message, came a tool call written as text ({markup})")
    return compare_spoken(expected, "\n".join(texts), options)


def markup_in(text: str) -> Iterator[str]:
    """Yield the marks of tool calls in a text, outside of its code."""
    outside = "\n".join(_unquoted(part) for part in _outside(text, "```")).lower()
    yield from (mark for mark in MARKUP if mark in outside)
    if _is_call(text):
        yield "a JSON call"


def _outside(text: str, fence: str) -> list[str]:
    """Return the parts outside of pairs of fences; a fence without its second hides nothing."""
    parts = text.split(fence)
    return parts[0::2] if len(parts) % 2 else [*parts[0::2], parts[-1]]


def _unquoted(text: str) -> str:
    if "`" not in text:
        return text
    return "\n".join(" ".join(_outside(line, "`")) for line in text.split("\n"))


def _is_call(text: str) -> bool:
    """Say whether the whole text, in a fence or not, is one call or a list of calls as JSON."""
    bare = text.strip()
    if bare.startswith("```") and bare.endswith("```"):
        bare = bare.removesuffix("```").partition("\n")[2].strip()
    if not bare.startswith(("{", "[")):
        return False
    try:
        value = json.loads(bare)
    except (ValueError, RecursionError):
        return False
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(
        isinstance(entry, dict) and "name" in entry and ("arguments" in entry or "parameters" in entry)
        for entry in values
    )
