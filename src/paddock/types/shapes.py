"""Checks that a response has the shape of the Responses API, before it is read leniently: names the wrong field.

Source  OpenAI Responses API, "The Response object": items with a `type` (a message may go without), names and arguments
        as texts, content as a text or a list of parts.
Law     a field of another type is a problem, and is not taken for an empty one; a missing or null field may be empty.
        What a model may write is no problem: an unknown name, arguments that are no JSON, no text, unknown kinds of
        items.
"""

from typing import Any, Literal, NamedTuple

from paddock.types.records import JsonObject
from paddock.types.responses import item_type

MODEL_PATCH = "model_patch"
"""Key of a coding agent's response, which may stand without items."""
Field = Literal["output", "item", "content", "name", "arguments"]


class ShapeProblem(NamedTuple):
    """One field that is wrong."""

    path: str
    """Its path, as `output.0.arguments`."""
    field: Field
    needs: str
    got: str
    """Its type in Python's words."""

    def __str__(self) -> str:
        return f"{self.path}: needs {self.needs}, got {self.got}"


def response_problem(response: JsonObject, path: str = "response") -> ShapeProblem | None:
    """What is wrong with a response that is to be judged; None: nothing. `path`: its name in messages."""
    output = response.get("output")
    if "output" not in response and MODEL_PATCH in response:
        return None
    if not isinstance(output, list):
        return _problem(f"{path}.output", "output", "a list of items", output)
    for nth, item in enumerate(output):
        if (problem := item_problem(item, f"{path}.output.{nth}")) is not None:
            return problem
    return None


def item_problem(item: Any, path: str) -> ShapeProblem | None:
    """What is wrong with a complete output item; None: nothing."""
    kind = item_type(item) if isinstance(item, dict) else ""
    if not kind:
        return _problem(path, "item", "an object with a `type`", item)
    if not isinstance(item.get("type", ""), str):
        return _problem(f"{path}.type", "item", "a text", item["type"])
    if kind in ("function_call", "custom_tool_call"):
        text = "arguments" if kind == "function_call" else "input"
        wrong_name = name_problem(item.get("name"), f"{path}.name")
        return wrong_name or arguments_problem(item.get(text), f"{path}.{text}")
    if kind == "message":
        if item.get("content") is None:
            return _problem(f"{path}.content", "content", "a text or a list of parts", None)
        return content_problem(item["content"], f"{path}.content")
    if kind == "reasoning":
        summary = content_problem(item.get("summary"), f"{path}.summary")
        return summary or content_problem(item.get("content"), f"{path}.content")
    return None


def name_problem(name: Any, path: str) -> ShapeProblem | None:
    return None if isinstance(name, str) else _problem(path, "name", "a text", name)


def arguments_problem(arguments: Any, path: str) -> ShapeProblem | None:
    # An object is no substitute: the text that the model wrote is judged, and can't be recovered from an object.
    return None if isinstance(arguments, str | None) else _problem(path, "arguments", "the model's text", arguments)


def content_problem(value: Any, path: str) -> ShapeProblem | None:
    parts = value if isinstance(value, list) else []
    if isinstance(value, str | list | None) and all(map(_is_part, parts)):
        return None
    return _problem(path, "content", "a text or a list of parts", value)


def _is_part(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("text"), str | None))


def _problem(path: str, field: Field, needs: str, got: Any) -> ShapeProblem:
    return ShapeProblem(path, field, needs, type(got).__name__)
