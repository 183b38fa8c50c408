"""What every model server does when it is asked to stream: the standard's events, in the standard's order.

Source  OpenAI Responses API, "Streaming events"; Chat Completions, "Streaming". A stream is read strictly.
"""

import time
from collections.abc import Sequence

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.model_fixture import (
    ModelFixture,
    StreamEvent,
    chat_question,
    model_fixture,
    question,
    read_events,
    require_upstream,
)
from paddock.conformance.target import ServerTarget
from paddock.http import RESPONSES, Call, EventStream
from paddock.types.responses import messages


async def responses_stream(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        events = await _events(fixture, await fixture.open_rollout(), "responses")
    names = [event.name for event in events]
    expect(names[0] == "response.created", f"the first event is {names[0]}")
    expect(names[-1] == "response.completed", f"the last event is {names[-1]}")
    expect([event.data["type"] for event in events] == names, "an event's name is not its type")
    numbers = [event.data.get("sequence_number") for event in events]
    expect(numbers == list(range(len(events))), f"sequence numbers {numbers[:10]}")
    deltas = "".join(event.data["delta"] for event in events if event.name == "response.output_text.delta")
    whole = events[-1].data["response"]
    expect(deltas == "".join(messages(whole)), f"the deltas say {deltas!r}, the whole response {messages(whole)}")
    expect(fixture.is_expected(deltas), f"it said {deltas!r}")
    expect(whole.get("status") == "completed" and whole.get("usage"), "the last event has no whole response")


async def responses_items_are_closed(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        events = await _events(fixture, await fixture.open_rollout(), "responses")
    pairs = (
        ("response.output_item.added", "response.output_item.done", "output_index"),
        ("response.content_part.added", "response.content_part.done", "item_id"),
    )
    for opens, closes, by in pairs:
        opened = [event.data[by] for event in events if event.name == opens]
        closed = [event.data[by] for event in events if event.name == closes]
        expect(opened and sorted(opened) == sorted(closed), f"{opens} for {opened}, {closes} for {closed}")
    whole = events[-1].data["response"]["output"]
    done = [event.data["item"] for event in events if event.name == "response.output_item.done"]
    expect(
        [item["id"] for item in whole] == [item["id"] for item in done], "the items done are not those of the response"
    )


async def chat_stream(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        events = await _events(fixture, await fixture.open_rollout(), "chat/completions")
    expect(events[-1].data == "[DONE]", "the stream does not end with [DONE]")
    chunks = [event.data for event in events[:-1]]
    expect(all(chunk.get("object") == "chat.completion.chunk" for chunk in chunks), "a chunk is of another object")
    expect(len({chunk.get("id") for chunk in chunks}) == 1, "the chunks have several ids")
    choices = [chunk["choices"][0] for chunk in chunks if chunk.get("choices")]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    expect(fixture.is_expected(text), f"it said {text!r}")
    expect(choices[0]["delta"].get("role") == "assistant", f"the first delta is {choices[0]['delta']}")
    reasons = [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]
    expect(reasons == ["stop"], f"finish reasons {reasons}")
    expect(
        chunks[-1].get("usage") and not chunks[-1].get("choices"), "usage was asked for, and is not in the last chunk"
    )


async def a_stream_is_one_turn(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        for path in ("responses", "chat/completions"):
            secret = await fixture.open_rollout()
            await _events(fixture, secret, path)
            turns = (await fixture.record(secret)).turns
            expect(len(turns) == 1, f"a stream of {path} is {len(turns)} turns")
            expect(fixture.is_expected("".join(messages(turns[0].output))), f"the turn says {turns[0].output}")


async def tokens_stream_as_they_come(target: ServerTarget) -> None:
    async with model_fixture(target, event_delay_s=0.05) as fixture:
        require_upstream(fixture)
        reply = await fixture.peer.call(RESPONSES, question(stream=True), Call(), secret=await fixture.open_rollout())
        if not isinstance(reply, EventStream):
            raise AssertionError("a whole answer came where a stream was asked for")
        times = []
        async for part in reply.events:
            if b"output_text.delta" in part:
                times.append(time.monotonic())
        expect(len(times) >= 2, f"{len(times)} deltas")
        expect(times[-1] - times[0] >= 0.04, "all deltas came at once, at the end")


async def broken_streams_say_so(target: ServerTarget) -> None:
    async with model_fixture(target, faults=lambda _number: "half_body") as fixture:
        require_upstream(fixture)
        secret = await fixture.open_rollout()
        reply = await fixture.http(f"/r/{secret}/v1/responses", question(stream=True))
        if reply.status_code == 200:
            names = [event.name for event in read_events(reply.text)]
            expect("response.completed" not in names, "a stream that broke says that it is complete")
            expect(names[-1] in ("response.failed", "error"), f"a stream that broke ends with {names[-1]}")
        expect((await fixture.record(secret)).turns == [], "a stream that broke was recorded")


async def _events(fixture: ModelFixture, secret: str, path: str) -> Sequence[StreamEvent]:
    body = question(stream=True) if path == "responses" else chat_question(stream=True)
    reply = await fixture.http(f"/r/{secret}/v1/{path}", body)
    expect(reply.status_code == 200, f"answered {reply.status_code}: {reply.text[:200]}")
    kind = reply.headers.get("content-type", "")
    expect(kind.startswith("text/event-stream"), f"content-type is {kind!r}: {reply.text[:100]}")
    return read_events(reply.text)


SUITE = [
    Behaviour("a Responses stream has the standard's events, in order", responses_stream),
    Behaviour("items and parts of a Responses stream are opened and closed", responses_items_are_closed),
    Behaviour("a Chat stream has chunks, usage and [DONE]", chat_stream),
    Behaviour("a stream is one turn", a_stream_is_one_turn),
    Behaviour("tokens stream as they come", tokens_stream_as_they_come),
    Behaviour("a stream that breaks says so, and is no turn", broken_streams_say_so),
]
