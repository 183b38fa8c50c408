"""Tool definitions and tool choice, from either dialect to either.

Law     function tools pass. In Chat a custom tool (free text) is offered as a function with one string `input`, which
        every open model can call, and its calls are turned back. Tools of a namespace are offered by their own name, or
        as `namespace__name` where another tool has that name; their calls are turned back, too. Of two definitions of
        one tool the later counts. Other kinds, such as hosted tools and tool search, are left out.
Source  OpenAI: "Function calling", "Custom tools", "Namespaces" of both APIs.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from paddock.types import JsonObject
from paddock.types.responses import output_items

_FUNCTION_FIELDS = ("name", "description", "parameters", "strict")
NO_NAMESPACES: Mapping[str, tuple[str, str]] = {}


class Tools(NamedTuple):
    """Tool definitions, and the kinds of those that were left out."""

    tools: list[JsonObject]
    dropped: list[str]


class OfferedTools(NamedTuple):
    """Tools as the engine is offered them: functions in Chat form."""

    tools: Sequence[JsonObject]
    dropped: Sequence[str]
    custom: frozenset[str]
    """Names of those that stand for custom tools."""
    namespaces: Mapping[str, tuple[str, str]]
    """Namespace and own name of each tool within one, by the name that is offered."""


NO_TOOLS = OfferedTools((), (), frozenset(), NO_NAMESPACES)


class _Tool(NamedTuple):
    """A tool of a client."""

    kind: str
    spec: JsonObject
    namespace: str
    """Empty: none."""
    name: str


def chat_tools(tools: Any) -> OfferedTools:
    """Tool definitions of a client as Chat functions."""
    dropped: list[str] = []
    named: dict[tuple[str, str], _Tool] = {}
    for tool in _flat(tools):
        if tool.kind in ("function", "custom"):
            named[tool.namespace, tool.name] = tool
        else:
            dropped.append(f"tools.{tool.kind}")
    uses = Counter(map(itemgetter(1), named))
    functions: list[JsonObject] = []
    custom: set[str] = set()
    namespaces: dict[str, tuple[str, str]] = {}
    for kind, spec, namespace, name in named.values():
        shown = f"{namespace}__{name}" if namespace and uses[name] > 1 else name
        spec = {**spec, "name": shown}
        if kind == "custom":
            custom.add(shown)
        if namespace:
            namespaces[shown] = (namespace, name)
        function = _custom_as_function(spec) if kind == "custom" else _function(spec)
        functions.append({"type": "function", "function": function})
    return OfferedTools(functions, dropped, frozenset(custom), namespaces)


def responses_tools(tools: Any) -> Tools:
    """Tool definitions of a client as Responses definitions; those of hosted tools pass as they are."""
    definitions = Tools([], [])
    for kind, spec in _specs(tools):
        if kind == "function":
            # There, what is not said to be lenient is strict.
            definitions.tools.append({"type": "function", "strict": False, **_function(spec)})
        else:
            definitions.tools.append({**spec, "type": kind})
    return definitions


def chat_tool_choice(choice: Any) -> Any:
    """A client's tool choice in Chat form; None: Chat has no form for it."""
    if isinstance(choice, str):
        return choice
    name = _choice_name(choice)
    if name:
        return {"type": "function", "function": {"name": name}}
    mode = choice.get("mode") if isinstance(choice, dict) else None
    return mode if isinstance(mode, str) else None


def responses_tool_choice(choice: Any) -> Any:
    name = _choice_name(choice)
    return {"type": choice["type"], "name": name} if name else choice


def input_of(arguments: str) -> str:
    """A custom tool's text from the arguments of the function that stood for it; what has another form is the text."""
    try:
        value = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
    text = value.get("input") if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments


def arguments_of(text: str) -> str:
    """The inverse of `input_of`."""
    return orjson.dumps({"input": text}).decode()


def _flat(tools: Any, namespace: str = "") -> Iterator[_Tool]:
    """Tools in and out of namespaces."""
    for kind, spec in _specs(tools):
        name = str(spec.get("name") or "")
        if kind == "namespace" and not namespace:
            yield from _flat(spec.get("tools"), name or kind)
        else:
            yield _Tool(kind, spec, namespace, name)


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
    if isinstance(form, dict) and form.get("definition"):
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


def _choice_name(choice: Any) -> str:
    """The one tool that was chosen, by name."""
    if not isinstance(choice, dict) or choice.get("type") not in ("function", "custom"):
        return ""
    nested = choice.get(choice["type"])
    return str((nested if isinstance(nested, dict) else choice).get("name") or "")
