"""Records the steps of a program's run, from its requests and the recorded turns.

Law     a step is a recorded turn and the results that the program sends back for its calls, by call id; whatever the
        dialect, as items of the Responses API. Steps are reported in the order of the record, each once: as soon as
        all of its calls have results, or at the end. Turns of a sub-agent or of a compaction are steps like others.
Pins    what would differ between members of a group in their first prompt (a date, a time zone) is replaced in every
        request, in the messages before the model's first words, by the same.
Side    requests that are no part of the task are refused and counted.
"""

import asyncio
import contextlib
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from paddock.harness.contract import MalformedCall, Model, OnStep, SideRequest, Step
from paddock.tools import Finish, InvalidCall, ShellCommand, normalise
from paddock.types import JsonObject, TurnSummary
from paddock.types.responses import ToolCall, calls, content_text, item_type, messages

CUT = "length"
"""Finish reason of an answer that met its limit."""
_CUSTOM = "custom_tool_call"
_MODEL_ROLES = ("assistant", "model", "tool")


class RequestRules(NamedTuple):
    """What is changed or refused in a program's requests."""

    pin: Callable[[str], str] = str
    """Replaces what differs between rollouts in a text of the first messages. Pure."""
    side_request: Callable[[str, JsonObject], str | None] = lambda _path, _body: None
    """Returns why a request is no part of the task; None: it is part of it."""


class StepRecorder:
    """The steps of one run; as a `RequestFilter` it sees the program's requests."""

    def __init__(self, model: Model, report: OnStep, *, rules: RequestRules, note: Callable[[str], None]) -> None:
        """`note` gets each command line that the policy's calls have run."""
        self.turns = 0
        """Recorded turns, of which `_steps` are reported."""
        self.sampled_tokens = 0
        self.malformed: Counter[MalformedCall] = Counter()
        self.side_requests: Counter[str] = Counter()
        self.last_turn: TurnSummary | None = None
        self.final: str | None = None
        self._request_hashes: set[bytes] = set()
        """Hashes of the requests that were let through: the same hash again is a retry."""
        self._model = model
        self._report = report
        self._rules = rules
        self._note = note
        self._results: dict[str, str] = {}
        self._tools: dict[str, JsonObject] = {}
        """Tools by name, with the schema of their arguments where the request has one."""
        self._waiting: list[TurnSummary] = []
        self._steps = 0
        self._arrived = asyncio.Event()

    def filter(self, path: str, body: JsonObject) -> JsonObject:
        reason = self._rules.side_request(path, body)
        if reason is not None:
            self.side_requests[reason] += 1
            raise SideRequest(f"{reason}: this is no part of the task")
        self._tools.update(_tool_schemas(body.get("tools")))
        for call_id, text in _results(body):
            self._results.setdefault(call_id, text)
        self._arrived.set()
        self._request_hashes.add(hashlib.sha256(orjson.dumps(body)).digest())
        return _pin_request(body, self._rules.pin)

    @property
    def unanswered_requests(self) -> int:
        """How many requests, without retries, have no recorded turn: none once a run has ended well."""
        return max(0, len(self._request_hashes) - self.turns)

    @contextlib.asynccontextmanager
    async def recording(self) -> AsyncIterator[None]:
        """Report steps while the context is open, and at its end those that are known; `finish` reads the rest."""
        recording_task = asyncio.create_task(self._record())
        try:
            yield
        finally:
            recording_task.cancel()
            await asyncio.gather(recording_task, return_exceptions=True)
            self._report_steps(everything=True)

    async def finish(self) -> None:
        """Read the turns once more, and report the steps that are left."""
        await self._read_turns()
        self._report_steps(everything=True)

    async def _record(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            await self._read_turns()
            self._report_steps()

    async def _read_turns(self) -> None:
        for turn in await self._model.transcript(self.turns):
            self.turns += 1
            self.sampled_tokens += turn.sampled_tokens or 0
            self.last_turn = turn
            text = _final_text(turn)
            self.final = self.final if text is None else text
            self._waiting.append(turn)

    def _report_steps(self, *, everything: bool = False) -> None:
        while self._waiting and (everything or self._is_complete(self._waiting[0])):
            turn = self._waiting.pop(0)
            self._steps += 1
            self._count(turn)
            self._report(Step(turn=self._steps, output=[*turn.output, *self._results_of(turn)], turn_id=turn.id))

    def _is_complete(self, turn: TurnSummary) -> bool:
        """Whether all calls of a turn have results; a turn without calls is complete when there is a later one."""
        ids = [call.call_id for call in calls(turn.output)]
        return all(call_id in self._results for call_id in ids) if ids else len(self._waiting) > 1

    def _results_of(self, turn: TurnSummary) -> Iterator[JsonObject]:
        for item in turn.output:
            call_id = item.get("call_id")
            if isinstance(call_id, str) and call_id in self._results:
                kind = "custom_tool_call_output" if item_type(item) == _CUSTOM else "function_call_output"
                yield {"type": kind, "call_id": call_id, "output": self._results[call_id]}

    def _count(self, turn: TurnSummary) -> None:
        cut = turn.finish_reason == CUT
        for item, call in zip(_calls_of(turn.output), calls(turn.output), strict=True):
            if cut and (call.call_id not in self._results or not _is_object(call.arguments)):
                self.malformed["cut"] += 1
            elif self._tools and call.name not in self._tools:
                self.malformed["unknown_tool"] += 1
            else:
                self._count_call(item, call)

    def _count_call(self, item: JsonObject, call: ToolCall) -> None:
        """Count a call of a tool that exists, and note the command line that it runs."""
        schema = None if item_type(item) == _CUSTOM else self._tools.get(call.name) or None
        action = normalise(call.name, call.arguments, schema=schema)
        if isinstance(action, ShellCommand):
            self._note(action.command)
        elif isinstance(action, InvalidCall) and item_type(item) != _CUSTOM:
            self.malformed["bad_json" if action.reason in ("not_json", "not_object") else "bad_arguments"] += 1


def _final_text(turn: TurnSummary) -> str | None:
    """Return a turn's last words: those of a tool that ends the task go before a message beside it."""
    ends = (normalise(call.name, call.arguments) for call in calls(turn.output))
    texts = [*messages(turn.output), *(end.text for end in ends if isinstance(end, Finish) and end.text)]
    return texts[-1] if texts else None


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(orjson.loads(arguments), dict)
    except orjson.JSONDecodeError:
        return False


def _calls_of(output: Sequence[JsonObject]) -> list[JsonObject]:
    return [item for item in output if item_type(item) in ("function_call", _CUSTOM)]


def _tool_schemas(tools: Any) -> Iterator[tuple[str, JsonObject]]:
    """Yield names and schemas of a request's tools, whatever its dialect."""
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            inner = tool["function"] if isinstance(tool.get("function"), dict) else tool
            schema = inner.get("parameters", inner.get("input_schema"))
            if isinstance(inner.get("name"), str):
                yield inner["name"], schema if isinstance(schema, dict) else {}
            yield from _tool_schemas(tool.get("tools"))


def _results(body: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield call id and text of each result in a request, whatever its dialect."""
    for item in _items_of(body):
        if item_type(item).endswith("_call_output"):
            yield from _result(item.get("call_id"), item.get("output"))
        elif item.get("role") == "tool":
            yield from _result(item.get("tool_call_id"), item.get("content"))
        elif item.get("role") == "user" and isinstance(item.get("content"), list):
            for part in item["content"]:
                if isinstance(part, dict) and part.get("type") == "tool_result":
                    yield from _result(part.get("tool_use_id"), part.get("content"))


def _result(call_id: Any, output: Any) -> Iterator[tuple[str, str]]:
    if isinstance(call_id, str):
        yield call_id, output if isinstance(output, str) else content_text(output)


def _items_of(body: JsonObject) -> Iterable[JsonObject]:
    given = body.get("input", body.get("messages"))
    return (item for item in given if isinstance(item, dict)) if isinstance(given, list) else ()


def _pin_request(body: JsonObject, pin: Callable[[str], str]) -> JsonObject:
    """Pin the first messages of a request; returns `body` itself where that changes nothing."""
    changed = dict(body)
    for key in ("instructions", "system", "input", "messages"):
        if key in changed:
            changed[key] = _pin_history(changed[key], pin)
    return body if changed == body else changed


def _pin_history(given: Any, pin: Callable[[str], str]) -> Any:
    if isinstance(given, str):
        return pin(given)
    if not isinstance(given, list):
        return given
    first: list[Any] = []
    for item in given:
        if not isinstance(item, dict) or _is_from_model(item):
            break
        first.append(_pin_message(item, pin))
    return [*first, *given[len(first) :]]


def _is_from_model(item: JsonObject) -> bool:
    """Whether an item is the model's, or a result for it."""
    return item.get("role") in _MODEL_ROLES or item_type(item).endswith(("_call", "_output", "reasoning"))


def _pin_message(item: JsonObject, pin: Callable[[str], str]) -> JsonObject:
    if isinstance(item.get("text"), str):
        return {**item, "text": pin(item["text"])}
    content = item.get("content")
    if isinstance(content, str):
        return {**item, "content": pin(content)}
    if isinstance(content, list):
        return {**item, "content": [_pin_message(part, pin) if isinstance(part, dict) else part for part in content]}
    return item
