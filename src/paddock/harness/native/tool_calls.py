"""From the model's calls to the results that it gets back.

Order   results stand in the order of the calls, whether the calls ran side by side or one after the other.
Names   a call means the tool that is shown by its name, exactly; `Toolbox.repaired` where the real program is not so
        strict.
Errors  a call that no tool can take is counted and answered in words. What a tool raises ends the run; calls beside it
        are cancelled first.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from paddock.harness.contract import MalformedCall
from paddock.harness.native.toolbox import RawToolCall, Toolbox, ToolResult
from paddock.tools import Malformed
from paddock.types import JsonObject
from paddock.types.responses import item_type, new_id, output_items

CALLS = ("function_call", "custom_tool_call")


class StepResults(NamedTuple):
    """Results of a step's calls."""

    items: list[JsonObject]
    done: bool
    final: str | None


def said_items(response: JsonObject) -> list[JsonObject]:
    """The model's items, themselves; but a call without an id is given one, so that its result has a place."""
    return [
        {**item, "call_id": new_id("call")} if item_type(item) in CALLS and not _text(item, "call_id") else item
        for item in output_items(response)
    ]


def called(items: Sequence[JsonObject]) -> list[RawToolCall]:
    """The calls among them."""
    return [
        RawToolCall(
            _text(item, "name"),
            _text(item, "arguments" if item["type"] == "function_call" else "input"),
            _text(item, "call_id"),
            item["type"] == "custom_tool_call",
        )
        for item in items
        if item_type(item) in CALLS
    ]


def _text(item: JsonObject, key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""


class ToolCaller:
    """Answers calls with one rollout's toolbox."""

    def __init__(self, toolbox: Toolbox, shown: Mapping[str, str], *, concurrent: bool) -> None:
        """`shown`: shown name by real name, of every tool; `concurrent`: calls of one step run side by side."""
        self.malformed: Counter[MalformedCall] = Counter()
        self._toolbox = toolbox
        self._real = {name: real for real, name in shown.items()}
        self._concurrent = concurrent

    async def answer(self, calls: Sequence[RawToolCall], *, cut: bool = False) -> StepResults:
        """`cut`: the answer ended at its limit, so its last call may be half of one."""
        if self._concurrent and len(calls) > 1:
            said = await self._side_by_side(calls, cut=cut)
        else:
            said = [await self._one(call, cut=cut and call is calls[-1]) for call in calls]
        done = next((one for one in said if one.done), None)
        items = [call.result(one.text) for call, one in zip(calls, said, strict=True)]
        return StepResults(items, done is not None, done.final if done else None)

    async def _side_by_side(self, calls: Sequence[RawToolCall], *, cut: bool) -> list[ToolResult]:
        tasks = [asyncio.ensure_future(self._one(call, cut=cut and call is calls[-1])) for call in calls]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                if not task.cancelling():  # twice would cut its own tidying short
                    task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _one(self, call: RawToolCall, *, cut: bool) -> ToolResult:
        box = self._toolbox
        real = self._real.get(call.shown) or self._real.get(box.repaired(call.shown) or "")
        method = box.method(real) if real else None
        if real is None or method is None:
            return self._refused("unknown_tool", box.unknown_tool(call))
        if call.custom:
            return _said(await method(call.raw))
        arguments = box.read_arguments(real, call.raw)
        if isinstance(arguments, Malformed):
            if arguments.reason in ("not_json", "not_object"):
                return self._refused("cut" if cut else "bad_json", box.bad_json(call.shown, call.raw, arguments))
            return self._refused("bad_arguments", box.bad_arguments(call.shown, call.raw, arguments))
        return _said(await method(**arguments))

    def _refused(self, kind: MalformedCall, text: str) -> ToolResult:
        self.malformed[kind] += 1
        return ToolResult(text)


def _said(given: str | ToolResult) -> ToolResult:
    return given if isinstance(given, ToolResult) else ToolResult(given)
