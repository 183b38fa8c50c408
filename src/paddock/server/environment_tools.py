"""Tools of an environment as methods of its server: what the model is shown of one, and a call of it.

Method  `@tool` on a method `(self, state, **arguments)`, plain or asynchronous. Its name is the tool's, its docstring's
        first paragraph the description, its annotations the schema of the arguments (pydantic's; `Annotated[str,
        Field(description=...)]` says more of one). It returns a text, or what is then written as JSON. A plain method
        runs in the server's loop, so it has to be quick.
Errors  `ToolMistake` is a text for the model about the model's own mistake; whatever else a method raises is a fault of
        the environment. Arguments that the schema does not take never reach the method.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import to_json

from paddock.errors import BugError, describe
from paddock.http import SessionCallResult
from paddock.server.openapi import schema_of
from paddock.tools import InvalidCall, decode_object
from paddock.types import JsonObject

_MARK = "__paddock_tool__"
Method = TypeVar("Method", bound=Callable[..., Any])


class ToolMistake(Exception):  # noqa: N818 - an answer to the model, not an error of ours
    """The model asked for what can't be: its text is what the model reads."""


class EnvironmentTool(NamedTuple):
    """One tool."""

    name: str
    ends: bool
    """Whether a call of it ends the rollout."""
    arguments: type[BaseModel]
    definition: JsonObject
    """As the Responses API has it in `tools`."""


@overload
def tool(method: Method, /) -> Method: ...
@overload
def tool(*, ends: bool = False) -> Callable[[Method], Method]: ...
def tool(method: Method | None = None, /, *, ends: bool = False) -> Any:
    """Make a method a tool; `@tool(ends=True)`: a call that it takes ends the rollout."""

    def mark(function: Method) -> Method:
        setattr(function, _MARK, ends)
        return function

    return mark if method is None else mark(method)


def tools_of(cls: type) -> Mapping[str, EnvironmentTool]:
    """Return the tools of a class by name, in the order of their definition, those of its bases first. Raises BugError
    for a method that can't be one."""
    found: dict[str, EnvironmentTool] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            found.pop(name, None)
            if hasattr(value, _MARK):
                found[name] = _tool(cls, name, value)
    return found


def _tool(cls: type, name: str, method: Callable[..., Any]) -> EnvironmentTool:
    made = make_tool(method, name, f"{cls.__name__}.{name}", skip=2)
    return made._replace(ends=getattr(method, _MARK))


def make_tool(function: Callable[..., Any], name: str, where: str, *, skip: int = 0) -> EnvironmentTool:
    """Return the tool that a function is, without its first `skip` arguments. Raises BugError for one that can't be
    one. `where`: its name in messages."""
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise BugError(f"{where}: `{parameter}`: a tool's arguments have names", kind="tool_invalid")
        if parameter.name not in hints:
            raise BugError(f"{where}: argument `{parameter.name}` has no type", kind="tool_invalid")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    arguments: type[BaseModel] = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
    definition: JsonObject = {"type": "function", "name": name, "parameters": _schema(arguments)}
    description = inspect.cleandoc(function.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    if description:
        definition["description"] = description
    return EnvironmentTool(name, ends=False, arguments=arguments, definition=definition)


def _schema(arguments: type[BaseModel]) -> JsonObject:
    schema = _without_titles(schema_of(arguments))
    return {**schema, "required": schema.get("required", [])}


def _without_titles(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    if not isinstance(node, dict):
        return node
    # A property may be called `title`: that one is no text.
    return {
        key: _without_titles(value) for key, value in node.items() if not (key == "title" and isinstance(value, str))
    }


async def call_tool(
    server: object, tools: Mapping[str, EnvironmentTool], state: Any, name: str, arguments: str
) -> SessionCallResult:
    """Run a call as the model wrote it. Raises what the method raises, but for ToolMistake."""
    known = tools.get(name)
    if known is None:
        text = f"There is no tool {name!r}; there are: {', '.join(tools) or 'none'}."
        return SessionCallResult(text=text, problem="unknown_tool")
    return await run_tool(known, partial(getattr(server, name), state), arguments)


async def run_tool(tool: EnvironmentTool, function: Callable[..., Any], arguments: str) -> SessionCallResult:
    """Run a function, which may be asynchronous, with the arguments of a tool as the model wrote them. Raises what it
    raises, but for ToolMistake."""
    given = decode_object(arguments or "{}")
    if isinstance(given, InvalidCall):
        return SessionCallResult(text=f"{tool.name}: {given.detail}", problem="bad_json")
    try:
        read = tool.arguments.model_validate(given)
    except ValidationError as error:
        return SessionCallResult(text=f"{tool.name}: {describe(error)}", problem="bad_arguments")
    try:
        result = function(**{field: getattr(read, field) for field in tool.arguments.model_fields})
        if inspect.isawaitable(result):
            result = await result
    except ToolMistake as mistake:
        return SessionCallResult(text=str(mistake))
    text = result if isinstance(result, str) else to_json(result).decode()
    return SessionCallResult(text=text, done=tool.ends)
