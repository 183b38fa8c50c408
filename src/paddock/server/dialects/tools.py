"""Tool definitions and tool choice, from either dialect to either.

Law     function tools pass. In Chat a custom tool (free text) is offered as a function with one string `input`, which
        every open model can call, and its calls are turned back. Other kinds, such as hosted tools, are left out.
Source  OpenAI: "Function calling", "Custom tools" of both APIs.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from paddock.types import JsonObject
from paddock.types.responses import output_items

_FUNCTION_FIELDS = ("name", "description", "parameters", "strict")


class Tools(NamedTuple):
    """Converted definitions, and the kinds of those that were left out."""

    tools: list[JsonObject]
    dropped: list[str]


def custom_names(tools: Any) -> frozenset[str]:
    """Names of the custom tools of a request in either dialect."""
    return frozenset(spec.get("name", "") for kind, spec in _specs(tools) if kind == "custom")


def chat_tools(tools: Any) -> Tools:
    """As Chat functions."""
    found = Tools([], [])
    for kind, spec in _specs(tools):
        if kind == "function":
            found.tools.append({"type": "function", "function": _function(spec)})
        elif kind == "custom":
            found.tools.append({"type": "function", "function": _custom_as_function(spec)})
        else:
            found.dropped.append(f"tools.{kind}")
    return found


def responses_tools(tools: Any) -> Tools:
    """As Responses definitions; those of hosted tools pass as they are."""
    found = Tools([], [])
    for kind, spec in _specs(tools):
        if kind == "function":
            # There, what is not said to be lenient is strict.
            found.tools.append({"type": "function", "strict": False, **_function(spec)})
        else:
            found.tools.append({**spec, "type": kind})
    return found


def chat_tool_choice(choice: Any) -> Any:
    """None: nothing that Chat could be told."""
    if isinstance(choice, str):
        return choice
    name = _chosen(choice)
    if name:
        return {"type": "function", "function": {"name": name}}
    mode = choice.get("mode") if isinstance(choice, dict) else None
    return mode if isinstance(mode, str) else None


def responses_tool_choice(choice: Any) -> Any:
    name = _chosen(choice)
    return {"type": choice["type"], "name": name} if name else choice


def input_of(arguments: str) -> str:
    """A custom tool's text from the arguments of the function that stood for it; what has another form is the text."""
    try:
        found = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
    text = found.get("input") if isinstance(found, dict) else None
    return text if isinstance(text, str) else arguments


def arguments_of(text: str) -> str:
    """The inverse of `input_of`."""
    return orjson.dumps({"input": text}).decode()


def _specs(tools: Any) -> Iterator[tuple[str, JsonObject]]:
    """Kind and definition; Chat nests the definition under its kind, Responses has it flat."""
    for tool in output_items(tools):
        kind = str(tool.get("type") or "function")
        nested = tool.get(kind)
        yield kind, nested if isinstance(nested, dict) else {key: tool[key] for key in tool if key != "type"}


def _function(spec: JsonObject) -> JsonObject:
    return {key: spec[key] for key in _FUNCTION_FIELDS if spec.get(key) is not None}


def _custom_as_function(spec: JsonObject) -> JsonObject:
    form = spec.get("format")
    form = form.get("grammar", form) if isinstance(form, dict) else {}
    description = str(spec.get("description") or "")
    if form.get("definition"):
        description += f"\n\n`input` follows this {form.get('syntax', '')} grammar:\n{form['definition']}"
    return {
        "name": spec.get("name", ""),
        "description": description.strip(),
        "parameters": {
            "type": "object",
            "properties": {"input": {"type": "string"}},
            "required": ["input"],
            "additionalProperties": False,
        },
    }


def _chosen(choice: Any) -> str:
    """The one tool that was chosen, by name."""
    if not isinstance(choice, dict) or choice.get("type") not in ("function", "custom"):
        return ""
    nested = choice.get(choice["type"])
    return str((nested if isinstance(nested, dict) else choice).get("name") or "")
