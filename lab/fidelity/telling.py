"""Whether the engine was told what the client told: exact ids of a prompt with a hole in it prove nothing.

Law     what a client told (roles other than the assistant's, results of calls) stands in the last prompt, in order;
        what a system says may be moved to the start. White space does not count; templates may write texts as JSON.
"""

import json
from collections.abc import Sequence

from paddock.types import JsonObject
from paddock.types.responses import content_text, item_type


def untold(items: Sequence[JsonObject], prompt: str) -> list[str]:
    """Texts of `items` (the history of a request, `paddock.server.dialects.conversation`) that the prompt lacks."""
    packed = _packed(prompt)
    missing: list[str] = []
    start = 0
    for item in items:
        text = _told(item)
        if not _packed(text):
            continue
        moved = item.get("role") in ("system", "developer")
        end = _find(packed, text, 0 if moved else start)
        if end < 0:
            missing.append(text)
        elif not moved:
            start = end
    return missing


def _find(packed: str, text: str, start: int) -> int:
    """Where it ends; -1: it is not there."""
    forms = (_packed(text), _packed(json.dumps(text, ensure_ascii=False)[1:-1]))
    ends = [place + len(form) for form in forms if (place := packed.find(form, start)) >= 0]
    return min(ends, default=-1)


def _told(item: JsonObject) -> str:
    """Empty: it says nothing, or is the assistant's."""
    if item_type(item) == "message":
        return "" if item.get("role") == "assistant" else content_text(item.get("content"))
    return content_text(item.get("output")) if item_type(item).endswith("_call_output") else ""


def _packed(text: str) -> str:
    return "".join(text.split())
