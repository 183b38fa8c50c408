"""Responses API output items: fresh ones, and the text that they hold.

Law     every item has an id, every call a call id, unique beyond the rollout: what an engine leaves out is minted here.
        Items that were given are not changed; completed copies are made.
"""

from paddock.types import JsonObject
from paddock.types.responses import content_text, item_type, new_id

ID_PREFIX = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
}
CALLS = ("function_call", "custom_tool_call")


def reasoning_item(text: str, item_id: str | None = None) -> JsonObject:
    return {
        "type": "reasoning",
        "id": item_id or new_id("rs"),
        "summary": [{"type": "summary_text", "text": text}] if text else [],
    }


def custom_call_item(name: str, text: str, call_id: str | None = None) -> JsonObject:
    return {
        "type": "custom_tool_call",
        "id": new_id("ctc"),
        "call_id": call_id or new_id("call"),
        "name": name,
        "input": text,
        "status": "completed",
    }


def with_ids(item: JsonObject, *, fresh: bool = False) -> JsonObject:
    """The item with its type, id and call id; `fresh`: new ones, whatever it had."""
    kind = item_type(item)
    out = dict(item)
    out["type"] = kind
    if fresh or not isinstance(item.get("id"), str) or not item["id"]:
        out["id"] = new_id(ID_PREFIX.get(kind, "item"))
    if kind in CALLS and (fresh or not isinstance(item.get("call_id"), str) or not item["call_id"]):
        out["call_id"] = new_id("call")
    return out


def reasoning_text(item: JsonObject) -> str:
    """The text of a reasoning item: its summary, else its content."""
    return content_text(item.get("summary")) or content_text(item.get("content"))


def skeleton(item: JsonObject) -> JsonObject:
    """The item as it is when it opens: nothing said yet."""
    kind = item_type(item)
    empty: JsonObject = {}
    if kind == "message":
        empty = {"content": [], "status": "in_progress"}
    elif kind == "reasoning":
        empty = {"summary": []}
        item = {key: value for key, value in item.items() if key not in ("content", "encrypted_content")}
    elif kind == "function_call":
        empty = {"arguments": "", "status": "in_progress"}
    elif kind == "custom_tool_call":
        empty = {"input": "", "status": "in_progress"}
    return {**item, **empty}
