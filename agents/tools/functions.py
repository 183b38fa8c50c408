"""Python functions as tools: stateless, named in the agent's block as `package.module:function`.

Schema  from the signature, the description from the docstring, as of an environment's methods
        (`paddock.server.environment_tools`).
Time    an asynchronous function is cancelled at its limit. A plain one runs in a thread of its own, so it keeps nothing
        else waiting; nobody can end a thread, so one that never returns lives as long as the process.
Errors  ConfigError where a function is not there, or can't be a tool; `ToolMistake` is a text for the model; BugError
        for what else a function raises; InfraError at its time limit.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from paddock.agents.tools.sources import ToolReply
from paddock.config.plugins import resolve_function
from paddock.errors import BugError, ConfigError, InfraError, boundary
from paddock.http import Call
from paddock.server.environment_tools import make_tool, run_tool
from paddock.types import JsonObject


class FunctionSource:
    """The functions of an agent's block, for all its rollouts."""

    name = "functions"

    def __init__(self, specs: Sequence[str]) -> None:
        functions = {spec: resolve_function(spec) for spec in specs}
        try:
            tools = [make_tool(function, function.__name__, spec) for spec, function in functions.items()]
        except (BugError, NameError, TypeError) as error:
            raise ConfigError(f"functions: {error}", kind="tool_invalid") from error
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) != len(specs):
            raise ConfigError(f"functions: two of {', '.join(specs)} have one name", kind="tool_names")
        self._functions = {function.__name__: function for function in functions.values()}
        self.tools: Sequence[JsonObject] = [tool.definition for tool in tools]

    async def call(self, name: str, arguments: str, context: Call) -> ToolReply:
        function = self._functions[name]
        run = function if inspect.iscoroutinefunction(function) else partial(_in_thread, function)
        try:
            async with asyncio.timeout(context.remaining_s):
                with boundary(BugError, f"function {name}", stage="tools"):
                    result = await run_tool(self._tools[name], run, arguments)
        except TimeoutError as error:
            raise InfraError(f"function {name}: no result in time", kind="timeout", stage="tools") from error
        return ToolReply(result.text, result.problem)


def _in_thread(function: Callable[..., Any], **arguments: Any) -> "asyncio.Future[Any]":
    """Start a function in a thread that does not keep the process from its end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = function(**arguments)
        except BaseException as raised:  # noqa: BLE001 - raised again where the result is awaited
            # A future takes no StopIteration.
            error = RuntimeError(repr(raised)) if isinstance(raised, StopIteration) else raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            return  # the loop is closed: nobody waits

    threading.Thread(target=work, name=f"function {function.__name__}", daemon=True).start()
    return future
