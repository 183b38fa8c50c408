"""A request in any dialect as a Responses request for an engine.

Law     the inverse of `to_chat` for what both dialects can say. Nothing is stored at the engine unless the client asks
        for that.
"""

from paddock.server.dialects.canonical import items_of_chat
from paddock.server.dialects.to_chat import ChatForm
from paddock.server.dialects.tools import responses_tool_choice, responses_tools
from paddock.types import JsonObject
from paddock.types.request_fields import FIELDS
from paddock.types.responses import item_type, new_id, output_items

_SAME = [name for name, field in FIELDS.items() if "r" in field.sent]
_LOST = [name for name, field in FIELDS.items() if "r" in field.lost]


def responses_request(body: JsonObject) -> ChatForm:
    """`body` as `read_request` gave it."""
    if "messages" not in body:
        return _clean_request(body)
    fields = {key: body[key] for key in _SAME if key in body}
    fields.setdefault("store", False)
    fields.update(_renamed(body))
    tools = responses_tools(body.get("tools"))
    if tools.tools:
        fields["tools"] = tools.tools
        if "tool_choice" in body:
            fields["tool_choice"] = responses_tool_choice(body["tool_choice"])
    else:
        fields.pop("parallel_tool_calls", None)
    items = [_with_id(item) for item in items_of_chat(body["messages"])]
    return ChatForm({"input": items, **fields}, [key for key in _LOST if key in body])


def _clean_request(body: JsonObject) -> ChatForm:
    """A Responses request: its items lose their nulls; reasoning that has no id gets one."""
    fields = {key: value for key, value in body.items() if key not in ("stream", "stream_options")}
    if isinstance(body["input"], list):
        fields["input"] = [_clean_item(item) for item in output_items(body["input"])]
    if not body.get("tools"):
        fields.pop("tool_choice", None)
    return ChatForm(fields, [])


def _clean_item(item: JsonObject) -> JsonObject:
    clean = {key: value for key, value in item.items() if value is not None}
    return _with_id(clean) if clean.get("type") == "reasoning" else clean


def _renamed(body: JsonObject) -> JsonObject:
    fields: JsonObject = {}
    budget = body.get("max_completion_tokens", body.get("max_tokens"))
    if budget is not None:
        fields["max_output_tokens"] = budget
    if "reasoning_effort" in body:
        fields["reasoning"] = {"effort": body["reasoning_effort"]}
    form = body.get("response_format")
    if isinstance(form, dict) and form.get("type") not in (None, "text"):
        nested = form.get(form["type"])
        fields["text"] = {"format": {"type": form["type"], **(nested if isinstance(nested, dict) else {})}}
    return fields


def _with_id(item: JsonObject) -> JsonObject:
    """The item with an id, which reasoning needs in that dialect."""
    return {**item, "id": new_id("rs")} if item_type(item) == "reasoning" and "id" not in item else item
