"""Claims about replay: it plays what it was given, once, in either dialect, and says so when it has nothing."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError
from tests.support.models import ModelClient, asking
from tests.support.streams import read_chat_stream, read_responses_stream

from paddock.errors import ConfigError, from_wire
from paddock.http import FORGET, SCRIPT, TURNS, Call, Peer, ReplayScript
from paddock.models_servers.replay import ReplayServer
from paddock.models_servers.replay.config import ReplayConfig
from paddock.testing import TRANSPORTS, Transport, over
from paddock.types import JsonObject, Rollout, Row, TurnRecord, Verdict
from paddock.types.responses import call_item, calls, message_item, messages, output_items

ITEMS = [message_item("Looking."), call_item("bash", '{"command": "ls"}')]
ASKED: dict[str, JsonObject] = {"responses": {"input": "hi"}, "chat": {"messages": [{"role": "user", "content": "hi"}]}}
Opened = Callable[..., AbstractAsyncContextManager[tuple[ModelClient, ReplayServer]]]


@pytest.fixture
def replay(tmp_path: Path) -> Opened:
    @asynccontextmanager
    async def opened(transport: Transport = "direct", **config: Any) -> AsyncIterator[tuple[ModelClient, ReplayServer]]:
        settings = ReplayConfig.model_validate({"turn_store": {"folder": str(tmp_path / "turns")}, **config})
        server = ReplayServer(settings, name="m", peers={})
        async with asking(transport, server) as client:
            yield client, server

    return opened


async def put(server: ReplayServer, secret: str, *turns: list[JsonObject]) -> None:
    await server.handlers()[SCRIPT](ReplayScript(turns=list(turns)), Call(path={"secret": secret}))


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_script_is_played_turn_by_turn_in_either_dialect(
    replay: Opened, transport: Transport, stream: bool
) -> None:
    async with replay(transport) as (client, server):
        await put(server, "ro_1", ITEMS, [message_item("Done.")])
        first = await client.ask("responses", {**ASKED["responses"], "stream": stream}, "ro_1")
        second = await client.ask("chat", {**ASKED["chat"], "stream": stream}, key="ro_1")
        record = await server.turns("ro_1")
    body = read_responses_stream(first.stream) if stream else first.body
    assert messages(body) == ["Looking."]
    assert [(call.name, call.arguments) for call in calls(body)] == [("bash", '{"command": "ls"}')]
    said = read_chat_stream(second.stream) if stream else second.body["choices"][0]["message"]
    assert said["content"] == "Done."
    assert record.turns[0].output == body["output"]
    assert (record.engine, [turn.finish_reason for turn in record.turns]) == ("text", ["tool_calls", "stop"])
    assert all(turn.prompt_ids is turn.sampled_ids is turn.log_probs is None for turn in record.turns)


async def test_every_playing_has_ids_of_its_own(replay: Opened) -> None:
    async with replay() as (client, server):
        for secret in ("ro_1", "ro_2"):
            await put(server, secret, ITEMS, ITEMS)
        again = {**ASKED["responses"], "user": "another"}
        asked = [("ro_1", ASKED["responses"]), ("ro_1", again), ("ro_2", ASKED["responses"])]
        got = [await client.ask("responses", body, secret) for secret, body in asked]
    items = [item for reply in got for item in output_items(reply.body)]
    ids = [item[key] for item in items for key in ("id", "call_id") if key in item]
    assert len(set(ids)) == len(ids) == 9
    assert not set(ids) & {ITEMS[0]["id"], ITEMS[1]["id"], ITEMS[1]["call_id"]}


async def test_a_turn_is_the_child_of_the_one_that_its_request_continues(replay: Opened) -> None:
    async with replay() as (client, server):
        await put(server, "ro_1", ITEMS, ITEMS)
        first = await client.ask("responses", ASKED["responses"], "ro_1")
        history = [{"role": "user", "content": "hi"}, *first.body["output"]]
        await client.ask("responses", {"input": history}, "ro_1")
        record = await server.turns("ro_1")
    assert [turn.parent for turn in record.turns] == [None, record.turns[0].id]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_call_with_nothing_to_play_says_so(replay: Opened, transport: Transport) -> None:
    async with replay(transport) as (client, server):
        none = await client.ask("responses", ASKED["responses"], "ro_1")
        await put(server, "ro_1", ITEMS)
        await client.ask("responses", ASKED["responses"], "ro_1")
        ended = await client.ask("responses", {**ASKED["responses"], "user": "another", "stream": True}, "ro_1")
        outside = await client.ask("chat", ASKED["chat"], key="sk-1")
        record = await server.turns("ro_1")
    kinds = [from_wire(got.status, got.body).kind for got in (none, ended, outside)]
    assert kinds == ["no_script", "script_ended", "no_rollout"]
    assert len(record.turns) == 1


async def test_scripts_are_bounded_and_forgotten(replay: Opened) -> None:
    async with replay(max_scripts=2) as (client, server):
        for number in range(3):
            await put(server, f"ro_{number}", ITEMS)
        await server.forget("ro_2")
        statuses = [(await client.ask("chat", ASKED["chat"], f"ro_{number}")).status for number in range(3)]
    assert statuses == [400, 200, 400]


async def test_an_answer_takes_as_long_as_told(replay: Opened) -> None:
    async with replay(delay_s=0.1) as (client, server):
        await put(server, "ro_1", ITEMS)
        started = time.monotonic()
        await client.ask("chat", ASKED["chat"], "ro_1")
    assert 0.1 <= time.monotonic() - started < 20


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_its_own_routes_answer_over_every_transport(transport: Transport, tmp_path: Path) -> None:
    config = ReplayConfig.model_validate({"mode": "oracle", "turn_store": {"folder": str(tmp_path)}})
    async with over(transport, ReplayServer(config, name="m", peers={})) as peers:
        peer: Peer = peers["m"]
        assert await peer.call(SCRIPT, ReplayScript(turns=[ITEMS]), Call(), secret="ro_1") == {}
        assert await peer.call(TURNS, {}, Call(), secret="ro_1") == TurnRecord(engine="text", turns=[])
        assert await peer.call(FORGET, {}, Call(), secret="ro_1") == {}


async def make_rollouts(replay: Opened) -> list[Rollout]:
    """Two rollouts of one row, of two calls each."""
    rollouts = []
    async with replay() as (client, server):
        for member in range(2):
            secret = f"ro_{member}"
            await put(server, secret, [call_item("bash", f'{{"n": {member}}}')], [message_item(f"Done {member}.")])
            first = await client.ask("responses", ASKED["responses"], secret)
            await client.ask("responses", {"input": first.body["output"]}, secret)
            record = await server.turns(secret)
            verdict = Verdict(reward=1.0, reason="match")
            row = Row(responses_create_params=ASKED["responses"])
            rollouts.append(Rollout(row=row, outcome="completed", verdict=verdict, turns=record.turns, engine="text"))
    return rollouts


def write(path: Path, rollouts: list[Rollout]) -> str:
    path.write_bytes(b"".join(orjson.dumps(rollout.to_wire()) + b"\n" for rollout in rollouts))
    return str(path)


async def test_recorded_rollouts_play_again_each_member_its_own(replay: Opened, tmp_path: Path) -> None:
    rollouts = await make_rollouts(replay)
    path = write(tmp_path / "rollouts.jsonl", rollouts)
    async with replay(mode="recorded", rollouts=path) as (client, _):
        for member, rollout in enumerate([*rollouts, *rollouts]):
            secret = f"ro_again_{member}"
            first = await client.ask("responses", ASKED["responses"], secret)
            second = await client.ask("responses", {"input": first.body["output"]}, secret)
            assert first.body["output"] == rollout.turns[0].output
            assert second.body["output"] == rollout.turns[1].output
        unknown = await client.ask("responses", {"input": "something else"}, "ro_x")
    assert (unknown.status, unknown.body["error"]["kind"]) == (400, "not_recorded")


@pytest.mark.parametrize("content", [None, b"not json\n", b'{"a": 1}\n', b"[]\n"])
async def test_a_file_without_rollouts_is_said_at_start(replay: Opened, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "rollouts.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"rollouts\.jsonl"):
        async with replay(mode="recorded", rollouts=str(path)):
            pass


@pytest.mark.parametrize("config", [{"mode": "recorded"}, {"mode": "oracle", "rollouts": "r.jsonl"}])
def test_rollouts_belong_to_the_recorded_mode(config: JsonObject) -> None:
    with pytest.raises(ValidationError, match="mode: recorded"):
        ReplayConfig.model_validate(config)
