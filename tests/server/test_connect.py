"""Claims about `paddock.connect`: the same handles in a script, in a running loop, on servers here and elsewhere."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import paddock
from paddock.config import load
from paddock.errors import ConfigError, InfraError, PaddockError, RequestError, RowError
from paddock.server.connect import Connection
from paddock.server.runtime import open_runtime
from paddock.types import Row
from paddock.types.responses import ToolCall, call_item, message_item

CONFIG = """
cue: {resources_servers: {'paddock.testing.servers:CueServer': {}}}
model: {models_servers: {'paddock.testing.servers:EchoModel': {}}}
agent:
  agents:
    single_step:
      resources_server: {type: resources_servers, name: cue}
      model_server: {type: models_servers, name: model}
"""
ROW: dict[str, Any] = {"responses_create_params": {"input": "hi"}}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def connection(config: Path) -> Iterator[Connection]:
    with paddock.connect(config) as opened:
        yield opened


def test_a_script_gets_results(connection: Connection) -> None:
    assert connection.cue.seed(ROW).visible == {}
    assert connection["cue"].verify(Row.from_wire(ROW), "done").reward == 1.0
    assert connection.agent.run(ROW).outcome == "completed"
    assert connection.model.responses("hi")["output"][0]["content"][0]["text"] == "done"
    assert connection.agent.responses({"input": "hi"})["status"] == "completed"


def test_routes_of_a_servers_own_are_posted_to(connection: Connection) -> None:
    body = {**ROW, "response": {"output": []}}
    assert connection.cue.post("/verify", body)["reward"] == 1.0
    with pytest.raises(RequestError, match=r"no route POST /verfy; nearest: `/verify`"):
        connection.cue.post("/verfy", body)


async def test_a_running_loop_gets_awaitables_and_is_not_blocked(connection: Connection) -> None:
    rollouts = await asyncio.gather(*(connection.agent.run(ROW) for _ in range(20)))
    assert [rollout.reward for rollout in rollouts] == [1.0] * 20
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await connection.cue.verify({**ROW, "cue": "hang"}, "done")


@pytest.mark.parametrize(
    "answer",
    [
        "text",
        ToolCall("ls", "{}"),
        call_item("ls", "{}"),
        message_item("text"),
        ["text", ToolCall("ls", "{}")],
        [call_item("ls", "{}")],
        {"output": []},
        [],
    ],
)
def test_an_answer_may_be_written_in_any_of_its_forms(connection: Connection, answer: object) -> None:
    assert connection.cue.verify(ROW, answer).reason == "match"


def test_the_forms_of_an_answer_mean_the_same() -> None:
    with paddock.connect("pivot") as pivot:
        expected = {"type": "function_call", "name": "ls", "arguments": '{"path": "a"}'}
        row = {**ROW, "expected_action": expected}
        oracle = pivot.pivot.oracle(row)
        for answer in (ToolCall("ls", '{"path": "a"}'), expected, [expected], {"output": [expected]}, oracle[0]):
            assert pivot.pivot.verify(row, answer).reward == 1.0
        for answer in ("ls a", [], ToolCall("ls", '{"path": "b"}')):
            assert pivot.pivot.verify(row, answer).reward == 0.0


@pytest.mark.parametrize(
    ("row", "answer", "error", "message"),
    [
        (ROW, 3, RequestError, "got int"),
        (ROW, {"text": "x"}, RequestError, "got dict"),
        ({"x": 1}, "x", RowError, "responses_create_params"),
        ({**ROW, "reward": 1.0}, "x", RowError, "`reward` belongs to rollouts"),
        ({**ROW, "cue": "sing"}, "x", RowError, "cue"),
    ],
)
def test_what_can_not_be_read_is_said_by_its_owner(
    connection: Connection, row: dict[str, Any], answer: object, error: type[PaddockError], message: str
) -> None:
    with pytest.raises(error, match=message):
        connection.cue.verify(row, answer)


def test_an_unknown_server_names_the_nearest(connection: Connection) -> None:
    with pytest.raises(ConfigError, match="no server `modle` here; nearest: `model`"):
        connection["modle"]
    with pytest.raises(AttributeError, match="servers: cue, model, agent"):
        connection.modle  # noqa: B018 - the access is the test
    assert {"cue", "model", "agent"} < set(dir(connection))
    assert list(connection) == ["cue", "model", "agent"]


def test_overrides_reach_inner_keys(config: Path) -> None:
    changed: dict[str, Any] = {"model.models_servers": {"paddock.testing.servers:EchoModel": {"reply": "changed"}}}
    with paddock.connect(config, **changed) as connection:
        assert connection.model.responses("hi")["output"][0]["content"][0]["text"] == "changed"


def test_a_scripted_model_plays_the_turns(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(CONFIG)
    replay: dict[str, Any] = {"models_servers": {"replay": {}}}
    with paddock.connect(config, servers=["scripted"], **_with_model("scripted", replay)) as connection:
        rollout = connection.scripted.run(ROW, turns=[["one", ToolCall("ls", "{}")]])
        assert [item["type"] for item in rollout.response["output"]] == ["message", "function_call"]
        assert len(rollout.turns) == 1


def _with_model(agent: str, model: dict[str, Any]) -> dict[str, Any]:
    references = {
        "resources_server": {"type": "resources_servers", "name": "cue"},
        "model_server": {"type": "models_servers", "name": "other"},
    }
    return {"other": model, agent: {"agents": {"single_step": references}}}


def test_closing_ends_the_thread_and_later_calls_say_so(config: Path) -> None:
    before = threading.active_count()
    connection = paddock.connect(config)
    assert threading.active_count() > before
    connection.close()
    connection.close()
    assert threading.active_count() == before
    with pytest.raises(RequestError, match="closed"):
        connection.cue.seed(ROW)


def test_a_config_that_can_not_start_raises_and_leaves_no_thread(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(CONFIG.replace("CueServer': {}", "CueServer': {start: fail}"))
    before = threading.active_count()
    with pytest.raises(InfraError, match="cue: can't start: ValueError: cued to fail"):
        paddock.connect(config)
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("target", "options", "error", "message"),
    [
        ("http://127.0.0.1:1", {}, InfraError, "can't be reached"),
        ({"cue": "127.0.0.1:1"}, {}, ConfigError, "`cue`: needs a URL"),
        ("http://127.0.0.1:1", {"x": 1}, ConfigError, "x can't be set"),
        ("nowhere.yaml", {}, ConfigError, "no file `nowhere.yaml`"),
        (3, {}, ConfigError, "needs config files, a plugin, a URL"),
        ("nothing", {}, ConfigError, "neither a config file nor a plugin"),
    ],
)
def test_a_wrong_target_is_said(target: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        paddock.connect(target, **options)


async def test_running_servers_are_reached_by_url_and_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PADDOCK_TOKEN", raising=False)
    async with open_runtime(load([], extra=yaml.safe_load(CONFIG)), listen=True, token="t") as runtime:
        urls = {name: str(server.url) for name, server in runtime.servers.items()}
        await asyncio.to_thread(_reach, urls)


def _reach(urls: dict[str, str]) -> None:
    with paddock.connect(urls["cue"], token="t") as one:
        assert list(one) == ["cue"]
        assert one.cue.verify(ROW, "done").reward == 1.0
        assert one.cue.post("/verify", {**ROW, "response": {"output": []}})["reward"] == 1.0
        with pytest.raises(RequestError, match="runs elsewhere"):
            one.cue.oracle(ROW)
    with paddock.connect({"a": urls["agent"], "m": urls["model"]}, token="t") as named:
        assert named.a.run(ROW).reward == 1.0
        assert named.m.responses("hi")["status"] == "completed"
        with pytest.raises(RequestError, match="can't be scripted"):
            named.a.run(ROW, turns=["x"])
    with paddock.connect(urls["cue"]) as unknown, pytest.raises(RequestError, match="needs `Authorization"):
        unknown.cue.seed(ROW)
