"""Claims about the record: exact tokens, the right parents, final when read, nothing secret in it."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from paddock.errors import InfraError
from paddock.models_servers.openai.config import OpenAIConfig
from paddock.testing import TRANSPORTS, ErrorStatus, ScriptedAnswer, ScriptedUpstream
from paddock.testing.upstream.answer import log_probs, prompt_ids
from paddock.tokens import full_prompt
from paddock.types import JsonObject
from paddock.types.responses import calls, new_id

Proxied = Callable[..., Any]
EXACT = {"engine": "spliced", "request_token_ids": True}
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]


def step_answer(_body: JsonObject, nth: int) -> ScriptedAnswer:
    return ScriptedAnswer(
        f"step {nth}, äöü", (("bash", f'{{"n": {nth}}}'),), reasoning=f"thought {nth}", weight_version=f"w{nth}"
    )


async def agent_loop(client: Any, secret: str, *, dialect: str, stream: bool, steps: int) -> None:
    """A tool loop as a harness runs it: each answer goes back with the output of its call."""
    history: list[JsonObject] = [{"role": "user", "content": "go"}]
    for _ in range(steps):
        if dialect == "responses":
            body: JsonObject = {"input": [*history], "tools": [{"type": "function", "name": "bash"}]}
            got = await client.ask("responses", body, secret)
            history += got.body["output"]
            (call,) = calls(got.body)
            history.append({"type": "function_call_output", "call_id": call.call_id, "output": "done"})
        else:
            body = {"messages": [*history], "tools": TOOLS, "stream": False}
            got = await client.ask("chat", body, secret)
            message = got.body["choices"][0]["message"]
            history.append(message)
            call_id = message["tool_calls"][0]["id"]
            history.append({"role": "tool", "tool_call_id": call_id, "content": "done"})
        assert got.status == 200
        if stream:
            # The same history, streamed: a sibling of the turn above.
            await client.ask(dialect, {**body, "user": "another", "stream": True}, secret)


@pytest.mark.parametrize("dialect", ["responses", "chat"])
async def test_prompts_and_samples_join_to_the_endpoints_own_ids(proxied: Proxied, dialect: str) -> None:
    async with (
        ScriptedUpstream(step_answer, keep_bodies=True) as upstream,
        proxied(upstream, **EXACT) as (client, server),
    ):
        await agent_loop(client, "ro_1", dialect=dialect, stream=False, steps=4)
        record = await server.turns("ro_1")
    assert record.engine == "spliced"
    assert [turn.parent for turn in record.turns] == [None, *(turn.id for turn in record.turns[:-1])]
    for nth, (turn, body) in enumerate(zip(record.turns, upstream.bodies, strict=True)):
        assert full_prompt(record.turns, turn.id) == prompt_ids(body["messages"])
        sampled = step_answer({}, nth).sampled_ids()
        assert turn.sampled_ids == sampled
        assert turn.log_probs == log_probs(0, len(sampled))
        assert turn.weight_version == f"w{nth}"
        assert turn.prompt_ids is not None
        assert nth == 0 or len(turn.prompt_ids) < 12


async def test_a_stream_records_the_same_tokens_as_a_whole_answer(proxied: Proxied) -> None:
    same = ScriptedAnswer(
        "a long enough text to be cut", (("bash", '{"a": "long enough argument"}'),), reasoning="hm " * 9
    )
    async with ScriptedUpstream(same) as upstream, proxied(upstream, **EXACT) as (client, server):
        await agent_loop(client, "ro_1", dialect="chat", stream=True, steps=2)
        record = await server.turns("ro_1")
    first, first_streamed, second, second_streamed = record.turns
    assert first.sampled_ids == first_streamed.sampled_ids == same.sampled_ids()
    assert first.log_probs == first_streamed.log_probs
    assert first.prompt_ids == first_streamed.prompt_ids
    # Both have the same ids: the later one is as good a parent.
    assert second.parent == second_streamed.parent == first_streamed.id


async def test_a_changed_history_starts_a_branch(proxied: Proxied) -> None:
    async with ScriptedUpstream(step_answer) as upstream, proxied(upstream, **EXACT) as (client, server):
        await agent_loop(client, "ro_1", dialect="chat", stream=False, steps=2)
        compacted: JsonObject = {"messages": [{"role": "user", "content": "so far: step 0, step 1"}], "tools": TOOLS}
        await client.ask("chat", compacted, "ro_1")
        record = await server.turns("ro_1")
    assert record.turns[2].parent is None
    assert full_prompt(record.turns, record.turns[2].id) == prompt_ids(compacted["messages"])


@pytest.mark.parametrize("dialect", ["responses", "chat"])
async def test_without_ids_the_parent_is_the_turn_that_the_history_holds(proxied: Proxied, dialect: str) -> None:
    async with ScriptedUpstream(step_answer) as upstream, proxied(upstream) as (client, server):
        await agent_loop(client, "ro_1", dialect=dialect, stream=False, steps=3)
        record = await server.turns("ro_1")
    assert record.engine == "text"
    assert [turn.parent for turn in record.turns] == [None, record.turns[0].id, record.turns[1].id]
    assert all(turn.prompt_ids is turn.sampled_ids is turn.log_probs is None for turn in record.turns)


async def test_a_message_is_found_in_the_history_by_its_text(proxied: Proxied) -> None:
    async with ScriptedUpstream(ScriptedAnswer(" I am done. ")) as upstream, proxied(upstream) as (client, server):
        await client.ask("chat", {"messages": [{"role": "user", "content": "go"}]}, "ro_1")
        history = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "I am done."}]
        await client.ask("responses", {"input": [*history, {"role": "user", "content": "go on"}]}, "ro_1")
        record = await server.turns("ro_1")
    assert record.turns[1].parent == record.turns[0].id


@pytest.mark.parametrize("stream", [False, True])
async def test_the_weights_may_be_named_by_a_header(proxied: Proxied, stream: bool) -> None:
    async with (
        ScriptedUpstream(answer_headers={"X-Weight-Version": "step-7"}) as upstream,
        proxied(upstream) as (client, server),
    ):
        await client.ask("responses", {"input": "hi", "stream": stream}, "ro_1")
        record = await server.turns("ro_1")
    assert record.turns[0].weight_version == "step-7"


@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_that_is_declared_spliced_and_gives_no_ids_is_a_failure(proxied: Proxied, stream: bool) -> None:
    async with ScriptedUpstream() as upstream, proxied(upstream, engine="spliced") as (client, server):
        got = await client.ask("chat", {"messages": [], "stream": stream}, "ro_1")
        record = await server.turns("ro_1")
    assert "token_ids_missing" in (got.stream.decode() or got.body["error"]["kind"])
    assert (upstream.calls, record.turns) == (1, [])


def test_ids_from_an_endpoint_that_gives_none_are_refused_at_start() -> None:
    with pytest.raises(ValidationError, match="upstream_api: chat"):
        OpenAIConfig.model_validate(
            {"base_url": "http://x", "model": "m", "upstream_api": "responses", "engine": "spliced"}
        )


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_rollout_whose_turns_were_read_takes_no_more_calls(proxied: Proxied, transport: str) -> None:
    async with ScriptedUpstream() as upstream, proxied(upstream, transport=transport) as (client, server):
        await client.ask("responses", {"input": "a"}, "ro_1")
        record = await server.turns("ro_1")
        got = await client.ask("responses", {"input": "b"}, "ro_1")
        assert (got.status, got.body["error"]["kind"], upstream.calls) == (409, "frozen", 1)
        assert await server.turns("ro_1") == record
        await server.forget("ro_1")
        assert (await server.turns("ro_1")).turns == []


async def test_an_answer_that_comes_after_the_turns_were_read_is_refused(proxied: Proxied) -> None:
    async with ScriptedUpstream(delay_s=0.2) as upstream, proxied(upstream) as (client, server):
        late = asyncio.create_task(client.ask("chat", {"messages": []}, "ro_1"))
        while not upstream.in_flight:
            await asyncio.sleep(0.01)
        record = await server.turns("ro_1")
        got = await late
        assert (got.status, record.turns, (await server.turns("ro_1")).turns) == (409, [], [])


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_secret_may_come_as_api_key_and_other_keys_name_no_rollout(
    proxied: Proxied, transport: str, tmp_path: Path
) -> None:
    secret = new_id("ro")
    async with ScriptedUpstream() as upstream, proxied(upstream, transport=transport) as (client, server):
        assert (await client.ask("chat", {"messages": []}, key=secret)).status == 200
        assert (await client.ask("chat", {"messages": []}, key="sk-of-someone")).status == 200
        assert (await client.ask("chat", {"messages": []})).status == 200
        assert len(list((tmp_path / "turns").iterdir())) == 1
        assert len((await server.turns(secret)).turns) == 1


async def test_turns_outlive_the_server(proxied: Proxied) -> None:
    async with ScriptedUpstream(step_answer) as upstream:
        async with proxied(upstream, **EXACT) as (client, _):
            await agent_loop(client, "ro_1", dialect="chat", stream=False, steps=2)
        async with proxied(upstream, **EXACT) as (client, server):
            await client.ask("chat", {"messages": [{"role": "user", "content": "other"}]}, "ro_1")
            record = await server.turns("ro_1")
    assert len(record.turns) == 3
    assert record.turns[1].parent == record.turns[0].id


async def test_no_secret_is_in_a_file_a_log_a_message_or_a_repr(
    proxied: Proxied, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret, key = new_id("ro"), "sk-very-secret"
    caplog.set_level(logging.DEBUG)
    wrong = ErrorStatus(500, "broken")
    async with (
        ScriptedUpstream(faults=lambda nth: wrong if nth % 2 else None, keep_bodies=True) as upstream,
        proxied(upstream, api_key=key, attempts=1, default_headers={"x-key": key}) as (client, server),
    ):
        await client.ask("chat", {"messages": [], "odd": 1}, secret)
        failed = await client.ask("chat", {"messages": []}, secret)
        upstream.api_key = "sk-another"
        refused = await client.ask("chat", {"messages": []}, secret)
        told = [path.name + path.read_text() for path in (tmp_path / "turns").iterdir()]
        told += [repr(server.config), repr(server), str(failed.body), str(refused.body), caplog.text]
    assert upstream.headers[0]["authorization"] == f"Bearer {key}"
    assert refused.body["error"]["kind"] == "upstream_auth"
    assert len(told) == 6
    for text in told:
        assert secret not in text
        assert key not in text
    assert secret not in str(upstream.headers) + str(upstream.bodies)


async def test_a_full_disk_is_an_infrastructure_failure(proxied: Proxied, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream, proxied(upstream) as (client, _):
        (tmp_path / "turns").rmdir()
        (tmp_path / "turns").write_text("in the way")
        got = await client.ask("chat", {"messages": []}, "ro_1")
        (tmp_path / "turns").unlink()
    assert (got.status, got.body["error"]["kind"]) == (InfraError.status, "turn_store")
