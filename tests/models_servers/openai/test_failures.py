"""Claims about failures of the endpoint: each has an owner, an end, and never becomes a turn."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from tests.support.streams import read_events, read_responses_stream

from paddock.errors import InfraError, RequestError, from_wire
from paddock.http import Call
from paddock.testing import TRANSPORTS, ErrorStatus, ScriptedAnswer, ScriptedUpstream, first, share

Proxied = Callable[..., Any]
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
RESPONSES: dict[str, Any] = {"input": "hi"}
LONG = ScriptedAnswer("word " * 40)
TOO_LONG = ErrorStatus(400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded")


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fault", "kind", "tries"),
    [
        (ErrorStatus(500), "upstream_status", 3),
        (ErrorStatus(429), "upstream_status", 3),
        (ErrorStatus(401), "upstream_auth", 1),
        (ErrorStatus(403), "upstream_auth", 1),
        ("drop", "upstream_connection", 3),
        ("not_json", "upstream_unreadable", 3),
        ("not_an_answer", "upstream_no_message", 3),
    ],
)
async def test_an_endpoint_that_fails_is_tried_a_counted_number_of_times(
    proxied: Proxied, fault: Any, kind: str, tries: int, stream: bool
) -> None:
    async with (
        ScriptedUpstream(LONG, faults=first(99, fault)) as upstream,
        proxied(upstream, attempts=3) as (client, server),
    ):
        got = await client.ask("chat", {**CHAT, "stream": stream}, "ro_1")
        record = await server.turns("ro_1")
    if stream and fault == "not_an_answer":
        kind = "upstream_unreadable"  # it is no stream either
    error = from_wire(got.status, got.body)
    assert (type(error), error.kind, upstream.calls) == (InfraError, kind, tries)
    assert error.retryable == (kind != "upstream_auth")
    assert f"127.0.0.1:{upstream.port}" in error.message
    assert record.turns == []


@pytest.mark.parametrize(("fault", "kind"), [("half_body", "upstream_connection"), ("engine_error", "upstream_failed")])
@pytest.mark.parametrize("upstream_api", ["responses", "chat"])
async def test_half_an_answer_is_none(proxied: Proxied, fault: Any, kind: str, upstream_api: str) -> None:
    async with (
        ScriptedUpstream(LONG, faults=first(99, fault)) as upstream,
        proxied(upstream, attempts=2, upstream_api=upstream_api) as (client, server),
    ):
        got = await client.ask("responses", RESPONSES, "ro_1")
        record = await server.turns("ro_1")
    assert (got.body["error"]["kind"], upstream.calls, record.turns) == (kind, 2, [])


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("fault", ["half_body", "engine_error"])
@pytest.mark.parametrize("upstream_api", ["responses", "chat"])
async def test_a_stream_that_breaks_ends_in_an_error_and_is_not_recorded(
    proxied: Proxied, fault: Any, upstream_api: str, transport: str
) -> None:
    async with (
        ScriptedUpstream(LONG, faults=first(99, fault), event_delay_s=0.004) as upstream,
        proxied(upstream, transport=transport, upstream_api=upstream_api) as (client, server),
    ):
        in_responses = await client.ask("responses", {**RESPONSES, "stream": True}, "ro_1")
        in_chat = await client.ask("chat", {**CHAT, "stream": True}, "ro_1")
        record = await server.turns("ro_1")
    final = read_responses_stream(in_responses.stream)
    assert (final["status"], record.turns) == ("failed", [])
    assert final["error"]["code"] in ("upstream_connection", "upstream_failed")
    last = orjson.loads(list(read_events(in_chat.stream))[-1].data)
    assert last["error"]["code"] in ("upstream_connection", "upstream_failed")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_endpoint_that_hangs_is_given_up_in_time(proxied: Proxied, stream: bool) -> None:
    async with (
        ScriptedUpstream(faults=first(99, "hang")) as upstream,
        proxied(upstream, attempts=2, timeout_s=0.4) as (client, _),
    ):
        started = time.monotonic()
        got = await client.ask("chat", {**CHAT, "stream": stream})
        took_s = time.monotonic() - started
        await until(lambda: upstream.n_cancelled == 2)
    assert (got.body["error"]["kind"], upstream.calls, upstream.n_cancelled) == ("upstream_timeout", 2, 2)
    assert took_s < 20


@pytest.mark.slow
async def test_a_stream_that_stops_coming_is_given_up_in_time(proxied: Proxied) -> None:
    async with (
        ScriptedUpstream(LONG, event_delay_s=0.2) as upstream,
        proxied(upstream, timeout_s=2.0) as (client, _),
    ):
        started = time.monotonic()
        got = await client.ask("responses", {**RESPONSES, "stream": True})
        took_s = time.monotonic() - started
    assert read_responses_stream(got.stream)["error"]["code"] == "upstream_timeout"
    assert 2.0 <= took_s < 7  # all of it would take 9


@pytest.mark.parametrize("stream", [False, True])
async def test_the_callers_deadline_ends_the_tries(proxied: Proxied, stream: bool) -> None:
    async with (
        ScriptedUpstream(faults=first(99, ErrorStatus(500))) as upstream,
        proxied(upstream, attempts=50, first_retry_s=0.2, max_retry_s=10) as (_, server),
    ):
        started = time.monotonic()
        with pytest.raises(InfraError) as caught:
            await server.chat({**CHAT, "stream": stream}, Call().within(0.5))
    # The last try may be the one that the deadline cuts short.
    assert caught.value.kind in ("upstream_status", "upstream_timeout")
    assert time.monotonic() - started < 20
    assert upstream.calls < 5


async def test_retry_after_is_honoured_up_to_the_longest_wait(proxied: Proxied) -> None:
    async with (
        ScriptedUpstream(faults=first(1, ErrorStatus(429, retry_after_s=60))) as upstream,
        proxied(upstream, first_retry_s=0.001, max_retry_s=0.3) as (client, _),
    ):
        started = time.monotonic()
        got = await client.ask("chat", CHAT)
    assert (got.status, upstream.calls) == (200, 2)
    assert 0.3 <= time.monotonic() - started < 30


async def test_one_call_in_three_may_fail_and_every_call_is_answered(proxied: Proxied) -> None:
    async with (
        ScriptedUpstream(faults=share(0.3, ErrorStatus(500), seed=4)) as upstream,
        proxied(upstream, attempts=8) as (client, server),
    ):
        got = await asyncio.gather(*(client.ask("chat", CHAT, f"ro_{nth}") for nth in range(200)))
        records = [await server.turns(f"ro_{nth}") for nth in range(200)]
    assert {reply.status for reply in got} == {200}
    assert [len(record.turns) for record in records] == [1] * 200
    assert 240 < upstream.calls < 340


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("stream", [False, True])
async def test_too_long_a_prompt_is_the_callers_and_openai_clients_can_tell(
    proxied: Proxied, transport: str, stream: bool
) -> None:
    async with (
        ScriptedUpstream(faults=first(99, TOO_LONG)) as upstream,
        proxied(upstream, transport=transport) as (client, _),
    ):
        got = await client.ask("responses", {**RESPONSES, "stream": stream}, "ro_1")
    assert (got.status, upstream.calls) == (400, 1)
    error = got.body["error"]
    assert (error["code"], error["type"]) == ("context_length_exceeded", "invalid_request_error")
    assert "maximum context length" in error["message"]
    ours = from_wire(got.status, got.body)
    assert (type(ours), ours.kind, ours.retryable) == (RequestError, "context_length_exceeded", False)


async def test_another_refusal_is_the_callers_and_not_tried_again(proxied: Proxied) -> None:
    async with (
        ScriptedUpstream(faults=first(99, ErrorStatus(422, "temperature must be positive"))) as upstream,
        proxied(upstream) as (client, _),
    ):
        got = await client.ask("chat", CHAT)
    assert (got.status, got.body["error"]["kind"], upstream.calls) == (400, "upstream_refused", 1)
    assert "temperature must be positive" in got.body["error"]["message"]


async def test_an_aborted_answer_is_none(proxied: Proxied) -> None:
    async with (
        ScriptedUpstream(
            lambda _body, nth: ScriptedAnswer("hal", finish_reason="abort" if nth == 0 else "stop")
        ) as upstream,
        proxied(upstream) as (client, server),
    ):
        got = await client.ask("chat", CHAT, "ro_1")
        record = await server.turns("ro_1")
    assert (got.status, upstream.calls, len(record.turns)) == (200, 2, 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_cancelling_a_call_that_nobody_may_come_back_for_cancels_the_exchange(
    proxied: Proxied, stream: bool
) -> None:
    async with (
        ScriptedUpstream(faults=first(1, "hang")) as upstream,
        proxied(upstream, max_concurrency=1, orphan_grace_s=0) as (client, _),
    ):
        asking = asyncio.create_task(client.ask("chat", {**CHAT, "stream": stream}, "ro_1"))
        while not upstream.in_flight:
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.wait([asking])
        await until(lambda: upstream.n_cancelled)
        assert (upstream.n_cancelled, upstream.in_flight) == (1, 0)
        assert (await client.ask("chat", CHAT)).status == 200


async def test_a_stream_that_is_left_or_never_read_gives_back_its_place(proxied: Proxied) -> None:
    async with (
        ScriptedUpstream(LONG, event_delay_s=0.03) as upstream,
        proxied(upstream, max_concurrency=1, timeout_s=0.4, orphan_grace_s=0) as (client, server),
    ):
        left = await server.chat({**CHAT, "stream": True}, Call(path={"secret": "ro_1"}))
        events = aiter(left.events)
        await anext(events)
        await events.aclose()
        await until(lambda: upstream.n_cancelled == 1)
        unread = await server.chat({**CHAT, "stream": True}, Call(path={"secret": "ro_1"}))
        upstream.event_delay_s = 0
        started = time.monotonic()
        assert (await client.ask("chat", CHAT)).status == 200
        assert time.monotonic() - started < 20
        assert (await server.turns("ro_1")).turns == []
        await unread.events.aclose()


async def test_no_more_exchanges_at_once_than_allowed(proxied: Proxied) -> None:
    async with ScriptedUpstream(delay_s=0.02) as upstream, proxied(upstream, max_concurrency=3) as (client, _):
        await asyncio.gather(*(client.ask("chat", {**CHAT, "stream": nth % 2 == 0}) for nth in range(12)))
    assert (upstream.calls, upstream.most_in_flight) == (12, 3)
