"""What every model server does for clients of the Messages dialect, which differs from the others in more than names.

Source  Anthropic, "Messages", "Streaming messages", "Errors". A stream is read strictly.
"""

from collections.abc import Sequence

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.model_fixture import ModelFixture, StreamEvent, messages_question, model_fixture, read_events
from paddock.conformance.target import ServerTarget
from paddock.http import MESSAGES, Call

PATH = "/v1/messages"


async def answers_messages(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        reply = await fixture.peer.call(MESSAGES, messages_question(), Call(), secret=secret)
        if not isinstance(reply, dict):
            raise AssertionError("a stream came where a whole answer was asked for")
        kinds = (reply.get("type"), reply.get("role"), reply.get("stop_reason"))
        expect(kinds == ("message", "assistant", "end_turn"), f"type, role and stop_reason are {kinds}")
        texts = [block["text"] for block in reply["content"] if block["type"] == "text"]
        expect(fixture.is_expected("".join(texts)), f"it said {texts}")
        usage = reply.get("usage") or {}
        expect("input_tokens" in usage and "output_tokens" in usage, f"usage is {usage}")
        expect(len((await fixture.record(secret)).turns) == 1, "a call is not one turn")


async def messages_stream(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        events = await _events(fixture, secret)
        expect(len((await fixture.record(secret)).turns) == 1, "a stream is not one turn")
    expect([event.data["type"] for event in events] == [event.name for event in events], "a name is not its type")
    names = [event.name for event in events if event.name != "ping"]
    expect(names[0] == "message_start", f"the first event is {names[0]}")
    expect(names[-2:] == ["message_delta", "message_stop"], f"the last events are {names[-2:]}")
    opened = [event.data["index"] for event in events if event.name == "content_block_start"]
    closed = [event.data["index"] for event in events if event.name == "content_block_stop"]
    expect(opened == closed == list(range(len(opened))), f"blocks {opened} start, {closed} stop")
    deltas = [event.data["delta"] for event in events if event.name == "content_block_delta"]
    text = "".join(delta["text"] for delta in deltas if delta["type"] == "text_delta")
    expect(fixture.is_expected(text), f"it said {text!r}")
    end = next(event.data for event in events if event.name == "message_delta")
    expect(end["delta"].get("stop_reason") == "end_turn", f"it ends with {end['delta']}")
    expect("output_tokens" in end["usage"], f"its usage is {end['usage']}")


async def the_x_api_key_names_the_rollout(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        reply = await fixture.http(PATH, messages_question(), **{"x-api-key": secret})
        expect(reply.status_code == 200, f"answered {reply.status_code}: {reply.text[:200]}")
        expect(len((await fixture.record(secret)).turns) == 1, "the call is not in the rollout that its API key names")


async def errors_are_of_the_dialect(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        for body in (b"{", {"max_tokens": 1}):
            reply = await fixture.http(f"/r/{secret}{PATH}", body)
            expect(reply.status_code == 400, f"{body!r} answered {reply.status_code}")
            error = reply.json()
            expect(error.get("type") == "error", f"its body is {reply.text[:200]}")
            expect(error["error"].get("type") == "invalid_request_error", f"its error is {error['error']}")
            expect(error["error"].get("message"), "its error says nothing")
        expect((await fixture.record(secret)).turns == [], "a refused call was recorded")


async def _events(fixture: ModelFixture, secret: str) -> Sequence[StreamEvent]:
    reply = await fixture.http(f"/r/{secret}{PATH}", messages_question(stream=True))
    expect(reply.status_code == 200, f"answered {reply.status_code}: {reply.text[:200]}")
    return read_events(reply.text)


SUITE = [
    Behaviour("a Messages call gets a standard message", answers_messages),
    Behaviour("a Messages stream has the standard's events, in order", messages_stream),
    Behaviour("the X-Api-Key names the rollout", the_x_api_key_names_the_rollout),
    Behaviour("a Messages client gets errors in its own form", errors_are_of_the_dialect),
]
