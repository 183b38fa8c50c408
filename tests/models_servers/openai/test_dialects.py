"""Claims about dialects: whichever the client speaks and whichever the endpoint, the same is said and recorded."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from tests.support.streams import read_chat_stream, read_responses_stream

from paddock.testing import TRANSPORTS, ScriptedAnswer, ScriptedUpstream
from paddock.types import JsonObject, Usage
from paddock.types.responses import calls, messages

Proxied = Callable[..., Any]
SAID = ScriptedAnswer(
    text="Let me look. " * 5,
    calls=(("bash", '{"command": "ls -la /some/where"}'), ("apply_patch", '{"input": "*** Begin Patch\\n"}')),
    reasoning="They want the listing. " * 3,
)
ARGUMENTS = '{"command": "ls -la /some/where"}'
PATCH = "*** Begin Patch\n"
FUNCTION = {"name": "bash", "description": "Runs.", "parameters": {"type": "object", "properties": {}}}
CUSTOM = {"name": "apply_patch", "description": "Patches."}
ASKED: dict[str, JsonObject] = {
    "responses": {
        "input": [{"role": "user", "content": "list"}],
        "tools": [{"type": "function", **FUNCTION}, {"type": "custom", **CUSTOM}],
    },
    "chat": {
        "messages": [{"role": "user", "content": "list"}],
        "tools": [{"type": "function", "function": FUNCTION}, {"type": "custom", "custom": CUSTOM}],
        "stream_options": {"include_usage": True},
    },
}


def said_by(upstream_api: str) -> ScriptedAnswer:
    """An endpoint that knows custom tools says their text, one that does not says a function's arguments."""
    patch = PATCH if upstream_api == "responses" else '{"input": "*** Begin Patch\\n"}'
    return ScriptedAnswer(SAID.text, (SAID.calls[0], ("apply_patch", patch)), SAID.reasoning)


@pytest.mark.parametrize(
    ("dialect", "upstream_api", "stream", "transport"),
    list(product(["responses", "chat"], ["responses", "chat"], [False, True], TRANSPORTS)),
)
async def test_every_pair_of_dialects_says_the_same(
    proxied: Proxied, dialect: Any, upstream_api: str, stream: bool, transport: str
) -> None:
    async with (
        ScriptedUpstream(said_by(upstream_api)) as upstream,
        proxied(upstream, transport=transport, upstream_api=upstream_api) as (client, server),
    ):
        got = await client.ask(dialect, {**ASKED[dialect], "stream": stream}, "ro_1")
        record = await server.turns("ro_1")
    assert got.status == 200
    (turn,) = record.turns
    (called, patched) = calls(turn.output)
    assert (called.name, called.arguments) == ("bash", ARGUMENTS)
    assert (patched.name, patched.arguments) == ("apply_patch", PATCH)
    assert [item["type"] for item in turn.output] == ["reasoning", "message", "function_call", "custom_tool_call"]
    assert messages(turn.output) == [SAID.text]
    assert turn.finish_reason == "tool_calls"
    assert turn.usage == Usage(input_tokens=10, output_tokens=5, cached_tokens=3, reasoning_tokens=2)
    if dialect == "responses":
        body = read_responses_stream(got.stream) if stream else got.body
        assert body["output"] == turn.output
        assert body["output"][0]["summary"][0]["text"] == SAID.reasoning
        assert body["usage"]["input_tokens_details"]["cached_tokens"] == 3
        assert (body["status"], body["usage"]["total_tokens"]) == ("completed", 15)
    else:
        said = read_chat_stream(got.stream) if stream else read_completion(got.body)
        assert (said["content"], said["reasoning_content"]) == (SAID.text, SAID.reasoning)
        assert said["tool_calls"] == [
            {"id": called.call_id, "type": "function", "function": {"name": "bash", "arguments": ARGUMENTS}},
            {"id": patched.call_id, "type": "custom", "custom": {"name": "apply_patch", "input": PATCH}},
        ]
        assert (said["finish_reason"], said["usage"]["total_tokens"]) == ("tool_calls", 15)


def read_completion(body: JsonObject) -> JsonObject:
    (choice,) = body["choices"]
    assert body["object"] == "chat.completion"
    assert choice["message"]["role"] == "assistant"
    return {**choice["message"], "finish_reason": choice["finish_reason"], "usage": body["usage"]}


@pytest.mark.parametrize(
    ("dialect", "upstream_api", "stream"), list(product(["responses", "chat"], ["responses", "chat"], [False, True]))
)
async def test_an_answer_that_was_cut_says_so(proxied: Proxied, dialect: Any, upstream_api: str, stream: bool) -> None:
    said = ScriptedAnswer("half an ans", finish_reason="length")
    async with ScriptedUpstream(said) as upstream, proxied(upstream, upstream_api=upstream_api) as (client, server):
        got = await client.ask(dialect, {**ASKED[dialect], "stream": stream}, "ro_1")
        record = await server.turns("ro_1")
    assert record.turns[0].finish_reason == "length"
    if dialect == "responses":
        body = read_responses_stream(got.stream) if stream else got.body
        assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    else:
        said_back = read_chat_stream(got.stream) if stream else read_completion(got.body)
        assert said_back["finish_reason"] == "length"


@pytest.mark.parametrize("upstream_api", ["responses", "chat"])
async def test_a_call_without_an_id_gets_one(proxied: Proxied, upstream_api: str) -> None:
    said = ScriptedAnswer(calls=(("a", "{}"), ("b", "{}")), call_ids=False)
    async with ScriptedUpstream(said) as upstream, proxied(upstream, upstream_api=upstream_api) as (client, _):
        whole = await client.ask("responses", ASKED["responses"])
        streamed = await client.ask("responses", {**ASKED["responses"], "stream": True})
    ids = [call.call_id for body in (whole.body, read_responses_stream(streamed.stream)) for call in calls(body)]
    assert len(set(ids)) == 4
    assert all(ids)


@pytest.mark.parametrize(("dialect", "upstream_api"), list(product(["responses", "chat"], ["responses", "chat"])))
async def test_nothing_said_is_an_empty_answer(proxied: Proxied, dialect: Any, upstream_api: str) -> None:
    async with (
        ScriptedUpstream(ScriptedAnswer()) as upstream,
        proxied(upstream, upstream_api=upstream_api) as (client, server),
    ):
        got = await client.ask(dialect, ASKED[dialect], "ro_1")
        await client.ask(dialect, {**ASKED[dialect], "user": "another", "stream": True}, "ro_1")
        record = await server.turns("ro_1")
    assert got.status == 200
    assert [turn.finish_reason for turn in record.turns] == ["stop", "stop"]


async def test_the_endpoint_gets_its_own_dialect_the_overrides_and_no_key_that_nobody_knows(proxied: Proxied) -> None:
    request = {
        **ASKED["responses"],
        "instructions": "Be short.",
        "max_output_tokens": 7,
        "temperature": 0.3,
        "presence_penalty": 0.5,
        "top_p": None,
        "client_metadata": {"a": 1},
        "model": "gpt-of-the-client",
        "metadata": {
            "extra_body": '{"seed": 3, "stream": true, "n": 2}',
            "chat_template_kwargs": '{"enable_thinking": true, "a": 1}',
        },
        "text": {"verbosity": "low"},
    }
    config = {
        "sampling_overrides": {"temperature": 1.0, "max_output_tokens": 5, "presence_penalty": None},
        "chat_template_kwargs": {"enable_thinking": False},
        "extra_body": {"top_k": -1},
        "default_headers": {"x-team": "blue"},
        "api_key": "sk-1",
    }
    async with (
        ScriptedUpstream(ScriptedAnswer("ok"), keep_bodies=True, api_key="sk-1") as upstream,
        proxied(upstream, **config) as (client, server),
    ):
        got = await client.ask("responses", request)
    assert got.status == 200
    (body,) = upstream.bodies
    tools = body.pop("tools")
    assert body == {
        "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "list"}],
        "max_tokens": 5,
        "temperature": 1.0,
        "top_k": -1,
        "seed": 3,
        "chat_template_kwargs": {"enable_thinking": False, "a": 1},
        "model": "policy",
    }
    assert tools[0] == {"type": "function", "function": FUNCTION}
    assert tools[1]["function"]["parameters"]["required"] == ["input"]
    assert upstream.headers[0]["x-team"] == "blue"
    assert server.dropped == {"client_metadata": 1}


async def test_a_rollout_keeps_to_one_of_several_endpoints(proxied: Proxied) -> None:
    async with (
        ScriptedUpstream() as one,
        ScriptedUpstream() as other,
        proxied(one, second=other) as (client, _),
    ):
        for secret in range(16):
            before = one.calls, other.calls
            for user in ("one", "another"):
                await client.ask("chat", {**ASKED["chat"], "user": user}, f"ro_{secret}")
            assert (one.calls - before[0], other.calls - before[1]) in ((2, 0), (0, 2))
        assert min(one.calls, other.calls) >= 2


async def test_two_answers_at_once_are_refused(proxied: Proxied) -> None:
    async with ScriptedUpstream() as upstream, proxied(upstream) as (client, _):
        got = await client.ask("chat", {**ASKED["chat"], "n": 2})
    assert (got.status, got.body["error"]["kind"], upstream.calls) == (400, "request_invalid", 0)
