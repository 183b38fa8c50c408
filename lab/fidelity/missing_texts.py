"""Texts of a client that a prompt lacks: exact ids of a prompt with a hole in it prove nothing.

Law     what a client sent (roles other than the assistant's, results of calls) stands in the last prompt, in order;
        what a system says may be moved to the start. White space does not count; templates may write texts as JSON.
"""

import json
from collections.abc import Sequence

from paddock.types import JsonObject
from paddock.types.responses import content_text, item_type


def missing_texts(items: Sequence[JsonObject], prompt: str) -> list[str]:
    """Texts of `items` (the history of a request, `paddock.server.dialects.conversation`) that the prompt lacks."""
    without_spaces = _without_spaces(prompt)
    missing: list[str] = []
    start = 0
    for item in items:
        text = _client_text(item)
        if not _without_spaces(text):
            continue
        moved = item.get("role") in ("system", "developer")
        end = _find(without_spaces, text, 0 if moved else start)
        if end < 0:
            missing.append(text)
        elif not moved:
            start = end
    return missing


def _find(without_spaces: str, text: str, start: int) -> int:
    """Where the text ends; -1 where it is missing."""
    forms = (_without_spaces(text), _without_spaces(json.dumps(text, ensure_ascii=False)[1:-1]))
    ends = [at + len(form) for form in forms if (at := without_spaces.find(form, start)) >= 0]
    return min(ends, default=-1)


def _client_text(item: JsonObject) -> str:
    """What the client says in an item; empty for the assistant's."""
    if item_type(item) == "message":
        return "" if item.get("role") == "assistant" else content_text(item.get("content"))
    return content_text(item.get("output")) if item_type(item).endswith("_call_output") else ""


def _without_spaces(text: str) -> str:
    return "".join(text.split())
