"""An engine's Responses object, whole or streamed, as an `Answer` or as parts.

Law     items keep what the engine says of them; missing ids are minted, the same in every event. The stream is whole
        when `response.completed` or `response.incomplete` came. A response that failed is no answer; one that did not
        passes the rules of `answer_rules`, whole or streamed.
Errors  UnreadableError, EngineFailedError.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from paddock.server.dialects.answer_rules import require_ending, require_item
from paddock.server.dialects.answers import Answer, read_responses_usage, sampled_in_responses
from paddock.server.dialects.failures import EngineFailedError, UnreadableError
from paddock.server.dialects.parts import Channel, ItemClosed, ItemDelta, ItemOpened, Part
from paddock.server.dialects.sse import Event
from paddock.types import FinishReason, JsonObject
from paddock.types.responses import calls, is_cut, with_ids

_CHANNELS: dict[str, Channel] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}


def read_response(body: Any) -> Answer:
    if not isinstance(body, dict):
        raise UnreadableError("a response is no JSON object")
    _require_answer(body)
    if not isinstance(body.get("output"), list):
        raise UnreadableError("a response needs a list `output`", kind="upstream_no_message")
    for nth, item in enumerate(body["output"]):
        require_item(item, nth)
    return _answer(body, [with_ids(item) for item in body["output"]])


class ResponsesReader:
    """Reads the events of one stream as parts."""

    def __init__(self) -> None:
        self._items: dict[int, JsonObject] = {}
        """Items that were opened, by number."""
        self._done: dict[int, JsonObject] = {}
        self._final: JsonObject | None = None

    @property
    def complete(self) -> bool:
        """Nothing more is to come."""
        return self._final is not None

    def read(self, event: Event) -> Iterator[Part]:
        """The parts of one event."""
        data = _object(event.data)
        kind = str(data.get("type") or event.name)
        if kind in _CHANNELS:
            part = data.get("summary_index", data.get("content_index", 0))
            yield from self._delta(_nth(data), _CHANNELS[kind], data.get("delta"), part)
        elif kind == "response.output_item.added":
            nth = _nth(data)
            self._items[nth] = item = with_ids(_require_object(data, "item"))
            yield ItemOpened(nth, item)
        elif kind == "response.output_item.done":
            yield self._close(_nth(data), _require_object(data, "item"))
        elif kind in ("response.completed", "response.incomplete"):
            self._final = _require_object(data, "response")
        elif kind == "response.failed":
            raise EngineFailedError(_require_object(data, "response").get("error"))
        elif kind == "error":
            raise EngineFailedError(data.get("error") or data)

    def end(self) -> Iterator[Part]:
        """What is left when the stream has ended: items that came only at the end, and the answer."""
        if self._final is None:
            raise UnreadableError("the stream ended without `response.completed`", kind="upstream_no_finish_reason")
        _require_answer(self._final)
        output = self._final.get("output")
        if not isinstance(output, list):
            raise UnreadableError("a response needs a list `output`", kind="upstream_no_message")
        last_parts = [self._close(nth, item) for nth, item in enumerate(output) if nth not in self._done]
        answer = _answer(self._final, [self._done[nth] for nth in sorted(self._done)])
        yield from last_parts
        yield answer

    def _delta(self, nth: int, channel: Channel, text: Any, part: Any) -> Iterator[Part]:
        if nth not in self._items or not isinstance(text, str):
            raise UnreadableError(f"output item {nth} grows before it was added")
        yield ItemDelta(nth, channel, text, part if isinstance(part, int) else 0)

    def _close(self, nth: int, item: Any) -> ItemClosed:
        require_item(item, nth)
        opened = self._items.get(nth, {})
        opened_ids: JsonObject = {key: opened[key] for key in ("id", "call_id") if key in opened and not item.get(key)}
        self._done[nth] = with_ids({**item, **opened_ids})
        return ItemClosed(nth, self._done[nth])


def _answer(body: JsonObject, output: list[JsonObject]) -> Answer:
    finish_reason = _finish_reason(body, output)
    if body.get("status") is None and not output:
        raise UnreadableError("it has neither `status` nor items", kind="upstream_no_finish_reason")
    require_ending(finish_reason, output, output_tokens=sampled_in_responses(body.get("usage")))
    model = body.get("model")
    return Answer(
        output,
        finish_reason,
        read_responses_usage(body.get("usage")),
        model=model if isinstance(model, str) and model else None,
        weight_version=body.get("weight_version"),
        response=body,
    )


def _finish_reason(body: JsonObject, output: list[JsonObject]) -> FinishReason:
    if is_cut(body):
        return "length"
    if body.get("status") == "incomplete":
        return "content_filter"
    return "tool_calls" if calls(output) else "stop"


def _require_answer(body: JsonObject) -> None:
    if body.get("error") or body.get("status") == "failed":
        raise EngineFailedError(body.get("error"))
    # NeMo-Gym's model servers give no status.
    if body.get("status") not in ("completed", "incomplete", None):
        raise UnreadableError(f"the response is {str(body['status'])[:40]}", kind="upstream_no_finish_reason")


def _object(data: bytes) -> JsonObject:
    if data == b"[DONE]":
        return {}
    try:
        event = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise UnreadableError(f"an event is no JSON: {error}") from error
    if not isinstance(event, dict):
        raise UnreadableError("an event is no JSON object")
    return event


def _require_object(data: JsonObject, key: str) -> JsonObject:
    value = data.get(key)
    if not isinstance(value, dict):
        raise UnreadableError(f"event {data.get('type')} needs `{key}`")
    return value


def _nth(data: JsonObject) -> int:
    nth = data.get("output_index")
    if not isinstance(nth, int):
        raise UnreadableError(f"event {data.get('type')} needs `output_index`")
    return nth
