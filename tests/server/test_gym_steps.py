"""A stepped server elsewhere: what is sent, what the model sees next, and what comes of a server that misbehaves."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web
from tests.agents.tools.test_tools_agent import ScriptedTurnsModel

from paddock.agents.tools import ToolsAgent
from paddock.agents.tools.config import ToolsAgentConfig
from paddock.errors import InfraError, RequestError
from paddock.http import (
    CALL_TOOL,
    END_SESSION,
    RESET,
    RUN,
    STEP,
    VERIFY_SESSION,
    Call,
    HttpPeer,
    Peer,
    SessionCall,
    SessionStep,
    SessionStepResult,
    VerifyRequest,
    read_row,
)
from paddock.resources_servers.external import ExternalServer
from paddock.resources_servers.external.server import ExternalConfig
from paddock.testing.transports import TRANSPORTS, Transport, over
from paddock.types import JsonObject, Rollout
from paddock.types.responses import make_response, message_item

LOOK = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
ROW = {"responses_create_params": {"input": "Play.", "tools": [LOOK]}, "level": 2}
GOES_ON = {"observation": "Go on.", "reward": 0.25, "terminated": False, "truncated": False, "info": {}}
ENDS = {"observation": "Over.", "reward": 0.5, "terminated": True, "truncated": False, "info": {"score": 3}}


class StepScript:
    """Replies to steps in turn; counts them in a cookie."""

    def __init__(self, replies: Sequence[Any]) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[str, str | None, JsonObject]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        cookie = request.headers.get("cookie")
        self.asked.append((request.path, cookie, orjson.loads(await request.read())))
        if request.path == "/reset":
            body = {"observation": "You stand in a hall.", "info": {"secret": 1}}
            return web.json_response(body, headers={"set-cookie": "count=0; Path=/"})
        if request.path != "/step":
            return web.Response(status=404)
        count = int(str(cookie).partition("=")[2]) + 1
        reply = self.replies.pop(0)
        if isinstance(reply, int):
            return web.Response(status=reply, text="no")
        return web.json_response(
            text=reply if isinstance(reply, str) else orjson.dumps(reply).decode(),
            headers={"set-cookie": f"count={count}; Path=/"},
        )

    @property
    def cookies(self) -> list[str | None]:
        return [cookie for path, cookie, _ in self.asked if path == "/step"]


@asynccontextmanager
async def stepped(
    *replies: Any, transport: Transport = "direct", turns: int = 4, **settings: Any
) -> AsyncIterator[tuple[dict[str, Peer], StepScript, ScriptedTurnsModel]]:
    script = StepScript(replies)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    peers: dict[str, Peer] = {}
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    config = ToolsAgentConfig.model_validate(
        {
            "resources_server": {"type": "resources_servers", "name": "gym"},
            "model_server": {"type": "models_servers", "name": "scripted_model"},
            "environment_steps": True,
            **settings,
        }
    )
    model = ScriptedTurnsModel([[message_item(f"answer {n}")] for n in range(turns)], peers)
    gym = ExternalServer(ExternalConfig(base_url=url), name="gym", peers=peers)
    try:
        async with over(transport, ToolsAgent(config, name="agent", peers=peers), gym, model) as at:
            yield at, script, model
    finally:
        await runner.cleanup()


async def play(*replies: Any, **settings: Any) -> tuple[Rollout, StepScript, ScriptedTurnsModel]:
    async with stepped(*replies, **settings) as (at, script, model):
        return await at["agent"].call(RUN, read_row(ROW), Call().within(30)), script, model


async def step(peer: Peer, session: str, call_id: str = "1") -> SessionStepResult:
    request = SessionStep(response=make_response([message_item("x")], {}, model="m"), call_id=call_id)
    return await peer.call(STEP, request, Call().within(5), session=session)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_episode_is_paid_the_sum_of_its_steps(transport: Transport) -> None:
    outputs = {**GOES_ON, "info": {"tool_outputs": [{"call_id": "c1", "output": "a door"}], "more": 1}}
    rollout, script, model = await play(outputs, GOES_ON, ENDS, transport=transport)
    assert (rollout.outcome, rollout.reward) == ("completed", 1.0)
    assert rollout.verdict is not None
    assert (rollout.verdict.reason, rollout.verdict.metrics) == ("terminated", {"steps": 3})
    assert rollout.verdict.extras == {"terminated": True, "truncated": False, "info": {"score": 3}}
    assert script.cookies == ["count=0", "count=1", "count=2"]
    assert [body["level"] for _, _, body in script.asked] == [2] * 4
    assert [one["response"]["output"][0]["content"][0]["text"] for _, _, one in script.asked[1:]] == [
        "answer 0",
        "answer 1",
        "answer 2",
    ]
    seen = [(item.get("role"), item.get("output") or item["content"]) for item in model.requests[2]["input"]]
    assert seen[0:2] == [("user", "Play."), ("user", "You stand in a hall.")]
    assert [seen[3], seen[4], seen[6]] == [(None, "a door"), ("user", "Go on."), ("user", "Go on.")]
    assert model.requests[0]["tools"] == [LOOK]
    assert rollout.response is not None
    assert "secret" not in str(rollout.response)


@pytest.mark.parametrize(
    ("replies", "reason"),
    [([GOES_ON, GOES_ON], "unfinished"), ([{**ENDS, "truncated": True, "terminated": False}], "truncated")],
)
async def test_an_episode_that_a_limit_ends_is_truncated_and_paid_so_far(replies: list[Any], reason: str) -> None:
    rollout, _, _ = await play(*replies, max_turns=2)
    assert (rollout.outcome, rollout.reward) == ("truncated", 0.5)
    assert rollout.verdict is not None
    assert (rollout.verdict.reason, rollout.verdict.extras["truncated"]) == (reason, True)


async def test_a_refused_answer_is_shown_to_the_model_and_is_no_step() -> None:
    rollout, _, model = await play(400, ENDS)
    assert (rollout.outcome, rollout.reward) == ("completed", 0.5)
    assert model.requests[1]["input"][-1] == {"type": "message", "role": "user", "content": "no"}
    assert rollout.response is not None
    assert rollout.response["harness"]["malformed"] == {"bad_arguments": 1}
    assert rollout.verdict is not None
    assert rollout.verdict.metrics == {"steps": 1}


@pytest.mark.parametrize(
    "reply",
    [
        *(500, 404, 422, "", "[]", "null", '{"reward": NaN}', '{"reward": "1e999"}', '{"reward": null}'),
        *({**ENDS, "observation": 3}, {**ENDS, "info": {"tool_outputs": "x"}}, {**ENDS, "terminated": "maybe"}),
    ],
)
async def test_a_step_that_fails_or_makes_no_sense_is_no_reward(reply: Any) -> None:
    rollout, _, _ = await play(GOES_ON, reply)
    assert (rollout.outcome, rollout.reward) == ("infra", None)
    assert rollout.failure is not None
    assert "gym: step 2" in rollout.failure.message


async def test_after_a_step_that_failed_there_is_no_verdict() -> None:
    async with stepped(GOES_ON, 500) as (at, _, _):
        session = str((await at["gym"].call(RESET, read_row(ROW), Call())).session_id)
        await step(at["gym"], session)
        with pytest.raises(InfraError, match="step 2: 500"):
            await step(at["gym"], session, "2")
        judged = VerifyRequest(row=read_row(ROW), response=make_response([message_item("x")], {}, model="m"))
        with pytest.raises(InfraError, match="step 2: 500"):
            await at["gym"].call(VERIFY_SESSION, judged, Call(), session=session)


async def test_a_step_that_is_asked_for_again_is_taken_once() -> None:
    async with stepped(GOES_ON, ENDS) as (at, script, _):
        session = str((await at["gym"].call(RESET, read_row(ROW), Call())).session_id)
        assert await step(at["gym"], session) == await step(at["gym"], session)
        assert len(script.cookies) == 1
        assert (await step(at["gym"], session, "2")).done
        with pytest.raises(RequestError, match="has ended"):
            await step(at["gym"], session, "3")
        with pytest.raises(RequestError, match="not by calls"):
            request = SessionCall(name="look", arguments="{}", call_id="4")
            await at["gym"].call(CALL_TOOL, request, Call(), session=session)
        await at["gym"].call(END_SESSION, {}, Call(), session=session)
        with pytest.raises(InfraError, match="not here any more"):
            judged = VerifyRequest(row=read_row(ROW), response=make_response([], {}, model="m"))
            await at["gym"].call(VERIFY_SESSION, judged, Call(), session=session)


async def test_a_server_of_ours_in_between_passes_steps_on() -> None:
    async with stepped(GOES_ON, ENDS, transport="http") as (at, _, _):
        gym = at["gym"]
        assert isinstance(gym, HttpPeer)
        outer = ExternalServer(ExternalConfig(base_url=gym.base_url), name="outer", peers={})
        async with over("direct", outer) as outside:
            session = await outside["outer"].call(RESET, read_row(ROW), Call())
            assert [item["content"] for item in session.opening] == ["You stand in a hall."]
            assert (await step(outside["outer"], str(session.session_id))).items == [
                {"type": "message", "role": "user", "content": "Go on."}
            ]
            judged = VerifyRequest(row=read_row(ROW), response=make_response([message_item("x")], {}, model="m"))
            verdict = await outside["outer"].call(VERIFY_SESSION, judged, Call(), session=str(session.session_id))
            assert (verdict.reward, verdict.reason) == (0.25, "unfinished")
