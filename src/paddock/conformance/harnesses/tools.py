"""The tools that a harness shows its model, and calls that a model could write for them.

Source  the tools of its first request; which of them runs shell lines, and which ends the run, is told by their names
        (`paddock.tools.form_of`), the arguments by their schemas.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from paddock.conformance.behaviours import NotApplicable
from paddock.conformance.harnesses.scripted_model import LAST_WORDS
from paddock.tools import Form, form_of
from paddock.tools.arguments import ROLES, properties_of
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

_OF_TYPE: dict[str, Any] = {
    "string": LAST_WORDS,
    "boolean": False,
    "number": 30,
    "integer": 30,
    "array": [],
    "object": {},
}


class ShownTools(NamedTuple):
    """The tools of a request, under the names that the model sees."""

    tools: list[JsonObject]
    real: Mapping[str, str] = {}
    """Real name by shown name, of the tools that are renamed."""

    @property
    def names(self) -> list[str]:
        return [str(tool.get("name")) for tool in self.tools]

    def shell(self, line: str, *, timeout: int | None = None) -> JsonObject:
        """Make a call that runs a line of shell text; `timeout`, in the tool's own unit, where the tool takes one."""
        tool = self._of_form("shell")
        if tool is None:
            raise NotApplicable(f"none of its tools is known to run shell lines: {', '.join(self.names)}")
        schema = tool.get("parameters") or {}
        name = next((name for name in ROLES["command"] if name in properties_of(schema)), None)
        if name is None:
            raise NotApplicable(
                f"`{tool['name']}` takes none of {', '.join(ROLES['command'])}: no line can be run by it"
            )
        takes_words = properties_of(schema)[name].get("type") == "array"
        given: JsonObject = {name: ["bash", "-lc", line] if takes_words else line}
        if timeout is not None and "timeout" in properties_of(schema):
            given["timeout"] = timeout
        return _call(tool, given)

    def closing(self) -> list[JsonObject]:
        """Make the answer that ends a run: a call of the finish tool, else a message."""
        tool = self._of_form("finish")
        return [message_item(LAST_WORDS)] if tool is None else [_call(tool, {})]

    def demanding(self) -> JsonObject:
        """Return a tool that can't be called without arguments. Raises NotApplicable."""
        for tool in self.tools:
            if tool.get("type") == "function" and (tool.get("parameters") or {}).get("required"):
                return tool
        raise NotApplicable("none of its tools needs an argument")

    def _of_form(self, form: Form) -> JsonObject | None:
        return next((tool for tool in self._functions() if form_of(self._real(tool)) == form), None)

    def _functions(self) -> Iterable[JsonObject]:
        return (tool for tool in self.tools if tool.get("type") == "function")

    def _real(self, tool: JsonObject) -> str:
        return self.real.get(str(tool["name"]), str(tool["name"]))


def _call(tool: JsonObject, given: JsonObject) -> JsonObject:
    """Make a call, with a value for each required argument that is not given."""
    schema = tool.get("parameters") or {}
    for name in schema.get("required") or []:
        given.setdefault(name, _some(properties_of(schema).get(name, {})))
    return call_item(str(tool["name"]), orjson.dumps(given).decode())


def _some(schema: JsonObject) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    return _OF_TYPE.get(kind if isinstance(kind, str) else "string", LAST_WORDS)
