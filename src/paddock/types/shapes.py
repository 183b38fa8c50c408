"""Whether a response is of its dialect's shape, before it is read leniently: where it is not, which field is wrong.

Source  OpenAI Responses API, "The Response object": items with a `type` (a message may go without), names and arguments
        as texts, content as a text or a list of parts.
Law     a field of another type is misshapen, not empty; only what is left out or null may be. What a model may say is
        never misshapen: an unknown name, arguments that are no JSON, no text at all, items of kinds that we don't know.
"""

from typing import Any, Literal, NamedTuple

from paddock.types.records import JsonObject
from paddock.types.responses import item_type

MODEL_PATCH = "model_patch"
"""Key of a coding agent's response, which may stand without items."""
Field = Literal["output", "item", "content", "name", "arguments"]


class Misshapen(NamedTuple):
    """One field that is wrong."""

    place: str
    """Its path, as `output.0.arguments`."""
    field: Field
    needs: str
    got: str
    """Its type in Python's words."""

    def __str__(self) -> str:
        return f"{self.place}: needs {self.needs}, got {self.got}"


def misshapen_response(response: JsonObject, place: str = "response") -> Misshapen | None:
    """Of a response that is to be judged; None: it is well formed."""
    output = response.get("output")
    if "output" not in response and MODEL_PATCH in response:
        return None
    if not isinstance(output, list):
        return _misshapen(f"{place}.output", "output", "a list of items", output)
    for nth, item in enumerate(output):
        if (found := misshapen_item(item, f"{place}.output.{nth}")) is not None:
            return found
    return None


def misshapen_item(item: Any, place: str) -> Misshapen | None:
    """Of an output item that is whole."""
    kind = item_type(item) if isinstance(item, dict) else ""
    if not kind:
        return _misshapen(place, "item", "an object with a `type`", item)
    if not isinstance(item.get("type", ""), str):
        return _misshapen(f"{place}.type", "item", "a text", item["type"])
    if kind in ("function_call", "custom_tool_call"):
        text = "arguments" if kind == "function_call" else "input"
        named = misshapen_name(item.get("name"), f"{place}.name")
        return named or misshapen_arguments(item.get(text), f"{place}.{text}")
    if kind == "message":
        if item.get("content") is None:
            return _misshapen(f"{place}.content", "content", "a text or a list of parts", None)
        return misshapen_text(item["content"], f"{place}.content")
    if kind == "reasoning":
        summary = misshapen_text(item.get("summary"), f"{place}.summary")
        return summary or misshapen_text(item.get("content"), f"{place}.content")
    return None


def misshapen_name(name: Any, place: str) -> Misshapen | None:
    return None if isinstance(name, str) else _misshapen(place, "name", "a text", name)


def misshapen_arguments(arguments: Any, place: str) -> Misshapen | None:
    # An object is not written out as text: what the model wrote, which is what is judged, can't be had from it.
    return None if isinstance(arguments, str | None) else _misshapen(place, "arguments", "the model's text", arguments)


def misshapen_text(value: Any, place: str) -> Misshapen | None:
    parts = value if isinstance(value, list) else []
    if isinstance(value, str | list | None) and all(map(_is_part, parts)):
        return None
    return _misshapen(place, "content", "a text or a list of parts", value)


def _is_part(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("text"), str | None))


def _misshapen(place: str, field: Field, needs: str, got: Any) -> Misshapen:
    return Misshapen(place, field, needs, type(got).__name__)
