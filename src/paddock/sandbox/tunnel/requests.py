"""Checks a model call from inside before it is passed on: its data goes on whole, nothing that acts upstream does.

Law     what goes on is what was read here, written anew: no second reading of the same bytes can find another
        request in them. Fields that no table knows are left out and named to the caller, for the log; those that would
        have the upstream fetch, look up or run something are refused. A null is as if the field were not there.
Errors  `TunnelRefusal` with status 400 in the form of the path's dialect: which field, and what would be right.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from paddock.sandbox.tunnel.dialects import (
    DIALECTS,
    FORMATS,
    HOSTED_TOOL_PREFIXES,
    OWN_TOOL_PREFIXES,
    OWN_TOOLS,
    TEMPLATE_SWITCHES,
    Dialect,
)
from paddock.sandbox.tunnel.errors import TunnelRefusal
from paddock.sandbox.tunnel.references import OFFERS, find_reference
from paddock.types import JsonObject

_NESTED = ("extra_body", "chat_template_kwargs")
"""Keys of `metadata` that a model server reads as fields of the request."""
_WORD_CHARACTERS = 64
_OWN_TOOLS = "offer functions that the program runs itself"


class CheckedRequest(NamedTuple):
    """A request that may go on."""

    body: bytes
    left_out: list[str]
    """Names of the fields that were left out."""


def check_request(path: str, body: bytes) -> CheckedRequest:
    """`path`: one of `DIALECTS`."""
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise TunnelRefusal.of_field(path, None, f"the body is no JSON: {error}") from error
    if not isinstance(request, dict):
        raise TunnelRefusal.of_field(path, None, "the body needs to be a JSON object")
    reading = _RequestReader(path, DIALECTS[path])
    allowed = reading.allowed(request)
    try:
        return CheckedRequest(orjson.dumps(allowed), reading.left_out)
    except orjson.JSONEncodeError as error:
        raise TunnelRefusal.of_field(path, None, "the body is nested too deeply") from error


class _RequestReader:
    """Reads one request; collects the names of what it leaves out."""

    def __init__(self, path: str, dialect: Dialect) -> None:
        self.left_out: list[str] = []
        self._path = path
        self._dialect = dialect
        self._readers: dict[str, Callable[[Any], Any]] = {
            "tools": lambda value: self._tools(value, "tools"),
            "metadata": self._metadata,
            "chat_template_kwargs": self._template_kwargs,
            "response_format": lambda value: self._form(value, "response_format"),
            "text": lambda value: self._form_holder(value, "text"),
            "output_config": lambda value: self._form_holder(value, "output_config"),
        }

    def allowed(self, request: JsonObject) -> JsonObject:
        fields: JsonObject = {}
        for name, value in request.items():
            advice = self._dialect.refused.get(name)
            if advice is not None:
                if value:
                    self._refuse(name, "is not taken from inside", advice)
            elif name in self._dialect.allowed:
                fields[name] = value if value is None else self._field(name, value)
            elif value is not None:
                self.left_out.append(name)
        return fields

    def _field(self, name: str, value: Any) -> Any:
        if name in self._dialect.history:
            reference = find_reference(name, value, is_input=name == "input")
            if reference is not None:
                self._refuse(reference.location, f"{reference.why} is not taken from inside", reference.advice)
            return self._with_offers(value) if name == "input" else value
        reader = self._readers.get(name)
        return value if reader is None else reader(value)

    def _with_offers(self, items: Any) -> Any:
        """The items, with the tools that some of them offer checked."""
        if not isinstance(items, list) or not any(_kind(item) in OFFERS for item in items):
            return items
        return [
            {**item, "tools": self._tools(item["tools"], f"input[{nth}].tools")}
            if _kind(item) in OFFERS and item.get("tools")
            else item
            for nth, item in enumerate(items)
        ]

    def _tools(self, tools: Any, location: str) -> list[JsonObject]:
        if not isinstance(tools, list):
            self._refuse(location, "is no list", "give a list of tools")
        checked = (self._tool(tool, f"{location}[{nth}]") for nth, tool in enumerate(tools))
        return [tool for tool in checked if tool is not None]

    def _tool(self, tool: Any, location: str) -> JsonObject | None:
        """None: left out."""
        if not isinstance(tool, dict):
            self.left_out.append("tools")
            return None
        kind = tool.get("type") or self._dialect.default_tool
        if kind == "namespace":
            return {**tool, "tools": self._tools(tool.get("tools") or [], f"{location}.tools")}
        if not isinstance(kind, str) or kind.startswith(HOSTED_TOOL_PREFIXES) or _runs_elsewhere(kind, tool):
            self._refuse(location, f"a tool of type `{str(kind)[:_WORD_CHARACTERS]}` would run upstream", _OWN_TOOLS)
        if kind in OWN_TOOLS or kind.startswith(OWN_TOOL_PREFIXES):
            return tool
        self.left_out.append(f"tools.{kind}")
        return None

    def _metadata(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        self.left_out += [f"metadata.{key}" for key in _NESTED if key in value]
        return {key: value[key] for key in value if key not in _NESTED}

    def _template_kwargs(self, value: Any) -> Any:
        if not isinstance(value, dict):
            self.left_out.append("chat_template_kwargs")
            return None
        if value.get("chat_template"):
            self._refuse("chat_template_kwargs.chat_template", "is not taken from inside", "leave it out")
        fields = {key: switch for key, switch in value.items() if key in TEMPLATE_SWITCHES and _is_switch(switch)}
        self.left_out += [f"chat_template_kwargs.{key}" for key in value if key not in fields]
        return fields

    def _form(self, value: Any, location: str) -> Any:
        """The format that an answer is to have."""
        if isinstance(value, dict) and value.get("type") is not None and value["type"] not in list(FORMATS):
            self._refuse(f"{location}.type", "is none of the dialect's", f"one of {', '.join(sorted(FORMATS))}")
        return value

    def _form_holder(self, value: Any, location: str) -> Any:
        if isinstance(value, dict):
            self._form(value.get("format"), f"{location}.format")
        return value

    def _refuse(self, location: str, why: str, advice: str) -> None:
        raise TunnelRefusal.of_field(self._path, location, f"{location}: {why}; {advice}")


def _kind(item: Any) -> Any:
    return item.get("type") if isinstance(item, dict) else None


def _runs_elsewhere(kind: str, tool: JsonObject) -> bool:
    """A shell whose environment is not the program's own machine."""
    environment = tool.get("environment")
    if kind != "shell" or environment is None:
        return False
    return not isinstance(environment, dict) or environment.get("type") != "local"


def _is_switch(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _WORD_CHARACTERS and value.replace("-", "").replace("_", "").isalnum()
    return value is None or isinstance(value, bool | int | float)
