"""Claims about the official client libraries: each understands every answer and every error of a model server."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from paddock.http import HttpPeer
from paddock.models_servers.openai import OpenAIServer
from paddock.models_servers.openai.config import OpenAIConfig
from paddock.testing import ErrorStatus, ScriptedAnswer, ScriptedUpstream, first, over
from paddock.types import JsonObject

SECRET = "ro_0123456789"
TEXT = "Größe: two files. " * 3
ARGUMENTS = '{"command": "ls -la", "n": 1}'
PATCH = "*** Begin Patch\n"
CALLED = ScriptedAnswer(
    text=TEXT,
    calls=(("bash", ARGUMENTS), ("apply_patch", '{"input": "*** Begin Patch\\n"}')),
    reasoning="They want the listing. " * 3,
)
TWO_CALLS = ScriptedAnswer(
    text=TEXT, calls=(("bash", ARGUMENTS), ("bash", '{"command": "pwd"}')), reasoning="Both at once."
)
SCHEMA: JsonObject = {"type": "object", "properties": {"command": {"type": "string"}}}
TOO_LONG = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."


class Clients(NamedTuple):
    """Of one model server, within one rollout that the key names."""

    openai: AsyncOpenAI
    anthropic: AsyncAnthropic
    server: OpenAIServer
    upstream: ScriptedUpstream


Opened = Callable[..., AbstractAsyncContextManager[Clients]]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """`async with opened(said, token=None, faults=None, **config) as clients`."""
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "ANTHROPIC_"))]:
        monkeypatch.delenv(name)

    @asynccontextmanager
    async def serve(
        said: ScriptedAnswer, *, token: str | None = None, faults: Any = None, event_delay_s: float = 0.0, **config: Any
    ) -> AsyncIterator[Clients]:
        settings: JsonObject = {"model": "policy", "attempts": 1, "turn_store": {"folder": str(tmp_path)}, **config}
        async with ScriptedUpstream(said, faults=faults, event_delay_s=event_delay_s, keep_bodies=True) as upstream:
            server = OpenAIServer(
                OpenAIConfig.model_validate({"base_url": upstream.url, **settings}), name="model", peers={}
            )
            async with over("http", server, token=token) as peers:
                peer = peers["model"]
                assert isinstance(peer, HttpPeer)
                async with (
                    AsyncOpenAI(api_key=SECRET, base_url=f"{peer.base_url}/v1", max_retries=0) as of_openai,
                    AsyncAnthropic(api_key=SECRET, base_url=peer.base_url, max_retries=0) as of_anthropic,
                ):
                    yield Clients(of_openai, of_anthropic, server, upstream)

    return serve


RESPONSES: Any = {
    "model": "any",
    "input": "list",
    "include": ["reasoning.encrypted_content"],
    "tools": [
        {"type": "function", "name": "bash", "parameters": SCHEMA, "strict": False},
        {"type": "custom", "name": "apply_patch", "description": "Patches."},
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
async def test_openai_reads_a_response_with_every_kind_of_item(opened: Opened, stream: bool) -> None:
    async with opened(CALLED) as clients:
        if stream:
            kinds = []
            async with clients.openai.responses.stream(**RESPONSES) as events:
                async for event in events:
                    kinds.append(event.type)
                response: Any = await events.get_final_response()
            assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
            assert {"response.output_text.delta", "response.function_call_arguments.delta"} <= set(kinds)
        else:
            response = await clients.openai.responses.create(**RESPONSES)
        thought, message, called, patched = response.output
        assert thought.summary[0].text == CALLED.reasoning
        assert (message.content[0].text, response.output_text) == (TEXT, TEXT)
        assert (called.name, called.arguments) == ("bash", ARGUMENTS)
        assert (patched.type, patched.name, patched.input) == ("custom_tool_call", "apply_patch", PATCH)
        assert (response.status, response.usage.input_tokens, response.usage.output_tokens) == ("completed", 10, 5)
        history = [{"role": "user", "content": "list"}, *(item.to_dict() for item in response.output)]
        results: list[Any] = [
            {"type": "function_call_output", "call_id": called.call_id, "output": "a.py"},
            {"type": "custom_tool_call_output", "call_id": patched.call_id, "output": "done"},
        ]
        await clients.openai.responses.create(**{**RESPONSES, "input": [*history, *results]})
        record = await clients.server.turns(SECRET)
    first_turn, second = record.turns
    assert second.parent == first_turn.id
    assert thought.encrypted_content == first_turn.id
    told = clients.upstream.bodies[1]["messages"]
    assert [message["role"] for message in told] == ["user", "assistant", "tool", "tool"]


async def test_openai_reads_calls_within_a_namespace(opened: Opened) -> None:
    namespace = {"type": "namespace", "name": "shell", "description": "d", "tools": RESPONSES["tools"][:1]}
    asked = {**RESPONSES, "tools": [namespace]}
    async with opened(ScriptedAnswer(calls=(("bash", ARGUMENTS),))) as clients:
        whole: Any = await clients.openai.responses.create(**asked)
        async with clients.openai.responses.stream(**{**asked, "input": "again"}) as events:
            streamed: Any = await events.get_final_response()
    for response in (whole, streamed):
        (called,) = response.output
        assert (called.name, called.namespace) == ("bash", "shell")
    assert clients.upstream.bodies[0]["tools"][0]["function"]["name"] == "bash"


CHAT: Any = {
    "model": "any",
    "messages": [{"role": "user", "content": "list"}],
    "tools": [
        {"type": "function", "function": {"name": "bash", "parameters": SCHEMA}},
        {"type": "custom", "custom": {"name": "apply_patch"}},
    ],
}


async def test_openai_reads_a_chat_completion(opened: Opened) -> None:
    async with opened(CALLED) as clients:
        completion: Any = await clients.openai.chat.completions.create(**CHAT)
        message = completion.choices[0].message
        assert (message.content, message.reasoning_content) == (TEXT, CALLED.reasoning)
        called, patched = message.tool_calls
        assert (called.function.name, called.function.arguments) == ("bash", ARGUMENTS)
        assert (patched.type, patched.custom.input) == ("custom", PATCH)
        assert (completion.choices[0].finish_reason, completion.usage.total_tokens) == ("tool_calls", 15)
        results = [{"role": "tool", "tool_call_id": call.id, "content": "ok"} for call in message.tool_calls]
        history = [*CHAT["messages"], message.to_dict(), *results]
        await clients.openai.chat.completions.create(**{**CHAT, "messages": history})
        record = await clients.server.turns(SECRET)
    assert record.turns[1].parent == record.turns[0].id


async def test_openai_reads_a_chat_stream_with_its_usage(opened: Opened) -> None:
    async with opened(TWO_CALLS) as clients:
        chunks: Any = await clients.openai.chat.completions.create(
            **CHAT, stream=True, stream_options={"include_usage": True}
        )
        text, reasons, usage = "", [], None
        calls: dict[int, str] = {}
        async for chunk in chunks:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                reasons.append(choice.finish_reason)
                for call in choice.delta.tool_calls or ():
                    calls[call.index] = calls.get(call.index, "") + (call.function.arguments or "")
    assert (text, calls) == (TEXT, {0: ARGUMENTS, 1: '{"command": "pwd"}'})
    assert (reasons[-1], usage.total_tokens if usage else None) == ("tool_calls", 15)


MESSAGES: Any = {
    "model": "any",
    "max_tokens": 64,
    "system": [{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": "list"}],
    "tools": [{"name": "bash", "description": "Runs.", "input_schema": SCHEMA}],
    "thinking": {"type": "adaptive"},
}


@pytest.mark.parametrize("stream", [False, True])
async def test_anthropic_reads_thoughts_texts_and_calls_and_tells_them_again(opened: Opened, stream: bool) -> None:
    async def ask(client: AsyncAnthropic, history: list[Any]) -> Any:
        asked = {**MESSAGES, "messages": history}
        if not stream:
            return await client.messages.create(**asked)
        async with client.messages.stream(**asked) as events:
            text = "".join([piece async for piece in events.text_stream])
            message = await events.get_final_message()
        assert text == TEXT
        return message

    async with opened(TWO_CALLS) as clients:
        message = await ask(clients.anthropic, MESSAGES["messages"])
        thought, said, *called = message.content
        assert (thought.thinking, said.text) == (TWO_CALLS.reasoning, TEXT)
        assert [call.input for call in called] == [{"command": "ls -la", "n": 1}, {"command": "pwd"}]
        assert (message.stop_reason, message.usage.output_tokens) == ("tool_use", 5)
        # Anthropic counts what was cached beside the input, OpenAI as a part of it.
        assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (7, 3)
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": "ok"} for call in called]
        history = [
            *MESSAGES["messages"],
            {"role": "assistant", "content": [block.model_dump() for block in message.content]},
            {"role": "user", "content": results},
        ]
        await ask(clients.anthropic, history)
        record = await clients.server.turns(SECRET)
    first_turn, second = record.turns
    assert (second.parent, thought.signature) == (first_turn.id, first_turn.id)
    told = clients.upstream.bodies[1]["messages"]
    assert [message["role"] for message in told] == ["system", "user", "assistant", "tool", "tool"]
    assert told[2]["reasoning_content"] == TWO_CALLS.reasoning


@pytest.mark.parametrize("stream", [False, True])
async def test_anthropic_is_answered_by_an_endpoint_of_the_responses_dialect(opened: Opened, stream: bool) -> None:
    async with opened(TWO_CALLS, upstream_api="responses") as clients:
        if stream:
            async with clients.anthropic.messages.stream(**MESSAGES) as events:
                message: Any = await events.get_final_message()
        else:
            message = await clients.anthropic.messages.create(**MESSAGES)
    thought, said, *called = message.content
    assert (thought.thinking, said.text) == (TWO_CALLS.reasoning, TEXT)
    assert [call.input for call in called] == [{"command": "ls -la", "n": 1}, {"command": "pwd"}]
    (asked,) = clients.upstream.bodies
    assert [item["role"] for item in asked["input"]] == ["system", "user"]
    assert (asked["tools"][0]["name"], asked["max_output_tokens"]) == ("bash", 64)


@pytest.mark.parametrize("stream", [False, True])
async def test_anthropic_reads_a_call_whose_arguments_are_no_json(opened: Opened, stream: bool) -> None:
    async with opened(ScriptedAnswer(calls=(("bash", '{"command": '),))) as clients:
        if stream:
            async with clients.anthropic.messages.stream(**MESSAGES) as events:
                message: Any = await events.get_final_message()
        else:
            message = await clients.anthropic.messages.create(**MESSAGES)
    assert message.content[0].input == {"malformed_arguments": '{"command": '}


@pytest.mark.parametrize(
    ("said", "reason"),
    [(ScriptedAnswer("half an ans", finish_reason="length"), "max_tokens"), (ScriptedAnswer("whole"), "end_turn")],
)
async def test_anthropic_learns_why_an_answer_ended(opened: Opened, said: ScriptedAnswer, reason: str) -> None:
    async with opened(said) as clients:
        message = await clients.anthropic.messages.create(**MESSAGES)
    assert message.stop_reason == reason


async def ask_each(clients: Clients, *, stream: bool = False) -> list[Exception]:
    """What each client raises, in each of its dialects."""

    async def whole(asking: Any) -> None:
        reply = await asking
        if stream:
            async for _ in reply:
                pass

    found: list[Exception] = []
    for create, asked in (
        (clients.openai.responses.create, RESPONSES),
        (clients.openai.chat.completions.create, CHAT),
        (clients.anthropic.messages.create, MESSAGES),
    ):
        try:
            await whole(create(**asked, stream=stream))
        except Exception as error:
            found.append(error)
    assert len(found) == 3, "a call was answered"
    return found


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_that_is_too_long_is_a_bad_request_that_clients_know(opened: Opened, stream: bool) -> None:
    fault = ErrorStatus(400, TOO_LONG, "context_length_exceeded")
    async with opened(CALLED, faults=first(99, fault)) as clients:
        in_responses, in_chat, in_messages = await ask_each(clients, stream=stream)
    for error in (in_responses, in_chat):
        assert isinstance(error, openai.BadRequestError)
        assert error.code == "context_length_exceeded"
    assert isinstance(in_messages, anthropic.BadRequestError)
    assert in_messages.body["error"]["type"] == "invalid_request_error"  # type: ignore[index]
    assert in_messages.body["error"]["message"] == "prompt is too long: 9000 tokens > 8192 maximum"  # type: ignore[index]


@pytest.mark.parametrize(
    ("fault", "of_openai", "of_anthropic", "final"),
    [
        (ErrorStatus(429), openai.InternalServerError, anthropic.InternalServerError, False),
        (ErrorStatus(500), openai.InternalServerError, anthropic.InternalServerError, False),
        (ErrorStatus(401), openai.InternalServerError, anthropic.InternalServerError, True),
    ],
)
async def test_trouble_at_the_endpoint_is_the_servers_own(
    opened: Opened, fault: ErrorStatus, of_openai: Any, of_anthropic: Any, final: bool
) -> None:
    async with opened(CALLED, faults=first(99, fault)) as clients:
        in_responses, in_chat, in_messages = await ask_each(clients)
    assert isinstance(in_responses, of_openai)
    assert isinstance(in_chat, of_openai)
    assert isinstance(in_messages, of_anthropic)
    assert in_messages.status_code == (503 if final else 529)
    assert (in_messages.response.headers.get("x-should-retry") == "false") is final


async def test_without_the_servers_token_a_client_is_not_authenticated(opened: Opened) -> None:
    async with opened(CALLED, token="t") as clients:
        in_responses, in_chat, in_messages = await ask_each(clients)
        message = await clients.anthropic.with_options(api_key="t").messages.create(**MESSAGES)
    assert isinstance(in_responses, openai.AuthenticationError)
    assert isinstance(in_chat, openai.AuthenticationError)
    assert isinstance(in_messages, anthropic.AuthenticationError)
    assert message.content


async def test_a_rollout_that_is_over_is_a_conflict_that_is_not_retried(opened: Opened) -> None:
    async with opened(CALLED) as clients:
        await clients.anthropic.messages.create(**MESSAGES)
        await clients.server.turns(SECRET)
        for error in await ask_each(
            clients._replace(
                openai=clients.openai.with_options(max_retries=3),
                anthropic=clients.anthropic.with_options(max_retries=3),
            )
        ):
            assert isinstance(error, openai.ConflictError | anthropic.ConflictError)
        assert clients.upstream.calls == 1


async def test_a_stream_that_breaks_is_an_error_of_each_client(opened: Opened) -> None:
    async with opened(ScriptedAnswer("word " * 40), faults=first(99, "half_body"), event_delay_s=0.002) as clients:
        _, in_chat, in_messages = await ask_each_broken(clients)
    assert isinstance(in_chat, openai.APIError)
    assert isinstance(in_messages, anthropic.APIStatusError)
    assert in_messages.body["error"]["type"] == "api_error"  # type: ignore[index]


async def ask_each_broken(clients: Clients) -> tuple[str, Exception, Exception]:
    """A response that failed is told, not raised."""
    events: Any = await clients.openai.responses.create(**RESPONSES, stream=True)
    last = [event async for event in events][-1]
    assert (last.type, last.response.status) == ("response.failed", "failed")
    found: list[Exception] = []
    for create, asked in (
        (clients.openai.chat.completions.create, CHAT),
        (clients.anthropic.messages.create, MESSAGES),
    ):
        try:
            async for _ in await create(**asked, stream=True):
                pass
        except Exception as error:
            found.append(error)
    in_chat, in_messages = found
    return last.response.error.code, in_chat, in_messages


async def test_the_key_of_either_client_names_the_rollout(opened: Opened) -> None:
    async with opened(ScriptedAnswer("ok")) as clients:
        await clients.openai.responses.create(model="any", input="hi")
        await clients.anthropic.messages.create(**MESSAGES)
        await clients.anthropic.with_options(api_key="another").messages.create(**MESSAGES)
        record = await clients.server.turns(SECRET)
    assert len(record.turns) == 2
