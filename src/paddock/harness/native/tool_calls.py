"""Runs the model's tool calls and returns their results.

Order   results stand in the order of the calls, whether the calls ran side by side or one after the other.
Names   a call means the tool that is shown by its name, exactly; `Toolbox.resolve_name` where the real program is
        not so strict.
Errors  a call that no tool can take is counted and answered in words. What a tool raises ends the run; calls beside it
        are cancelled first.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from paddock.harness.contract import MalformedCall
from paddock.harness.native.toolbox import RawToolCall, Toolbox, ToolResult
from paddock.tools import InvalidCall
from paddock.tracing import AnySpan, tool_span
from paddock.types import JsonObject
from paddock.types.responses import CALLS, item_type, new_id, output_items


class StepResults(NamedTuple):
    """The results of a step's calls."""

    items: list[JsonObject]
    done: bool
    final: str | None


def with_call_ids(response: JsonObject) -> list[JsonObject]:
    """Return the model's items unchanged, but give each call without an id one, for its result to name."""
    return [
        {**item, "call_id": new_id("call")} if item_type(item) in CALLS and not _text(item, "call_id") else item
        for item in output_items(response)
    ]


def tool_calls_of(items: Sequence[JsonObject]) -> list[RawToolCall]:
    """Return the calls among items."""
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
    """Runs calls with one rollout's toolbox."""

    def __init__(self, toolbox: Toolbox, shown: Mapping[str, str], *, concurrent: bool) -> None:
        """`shown`: shown name by real name, of every tool; `concurrent`: whether calls of one step run side by side."""
        self.malformed: Counter[MalformedCall] = Counter()
        self._toolbox = toolbox
        self._real = {name: real for real, name in shown.items()}
        self._concurrent = concurrent

    async def answer(self, calls: Sequence[RawToolCall], *, cut: bool = False) -> StepResults:
        """Run the calls of one step. `cut`: the answer ended at its limit, so its last call may be incomplete."""
        if self._concurrent and len(calls) > 1:
            results = await self._side_by_side(calls, cut=cut)
        else:
            results = [await self._run_call(call, cut=cut and call is calls[-1]) for call in calls]
        done = next((result for result in results if result.done), None)
        items = [call.result(result.text) for call, result in zip(calls, results, strict=True)]
        return StepResults(items, done is not None, done.final if done else None)

    async def _side_by_side(self, calls: Sequence[RawToolCall], *, cut: bool) -> list[ToolResult]:
        tasks = [asyncio.ensure_future(self._run_call(call, cut=cut and call is calls[-1])) for call in calls]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                if not task.cancelling():  # twice would cut its own tidying short
                    task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_call(self, call: RawToolCall, *, cut: bool) -> ToolResult:
        with tool_span(call.shown, call.call_id) as span:
            return await self._result_of(call, span, cut=cut)

    async def _result_of(self, call: RawToolCall, span: AnySpan, *, cut: bool) -> ToolResult:
        box = self._toolbox
        real = self._real.get(call.shown) or self._real.get(box.resolve_name(call.shown) or "")
        method = box.method(real) if real else None
        if real is None or method is None:
            return self._refused(span, "unknown_tool", box.unknown_tool(call))
        if call.custom:
            return _to_result(await method(call.raw))
        arguments = box.read_arguments(real, call.raw)
        if isinstance(arguments, InvalidCall):
            if arguments.reason in ("not_json", "not_object"):
                kind: MalformedCall = "cut" if cut else "bad_json"
                return self._refused(span, kind, box.bad_json(call.shown, call.raw, arguments))
            return self._refused(span, "bad_arguments", box.bad_arguments(call.shown, call.raw, arguments))
        return _to_result(await method(**arguments))

    def _refused(self, span: AnySpan, kind: MalformedCall, text: str) -> ToolResult:
        self.malformed[kind] += 1
        span.fail(f"policy.{kind}")
        return ToolResult(text)


def _to_result(given: str | ToolResult) -> ToolResult:
    return given if isinstance(given, ToolResult) else ToolResult(given)
