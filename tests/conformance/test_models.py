"""Claims about the model servers' suite: ours pass it, and each behaviour catches a broken one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Request, Response
from pydantic import ConfigDict

from paddock.conformance import BehaviourResult, suite_for
from paddock.errors import InfraError, RequestError
from paddock.http import Call, EventStream, ModelReply
from paddock.models_servers.openai import OpenAIServer
from paddock.models_servers.replay import ReplayServer
from paddock.models_servers.replay.config import ReplayConfig
from paddock.server import ModelServer
from paddock.types import JsonObject, RolloutSettings, TurnRecord, TurnSummaries, TurnSummaryQuery
from paddock.types.responses import make_response


class Nameless(ReplayServer):
    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        reply = await super().responses(body, call)
        return {**reply, "object": "answer"} if isinstance(reply, dict) else reply


class OneDialect(ReplayServer):
    async def chat(self, body: JsonObject, call: Call) -> ModelReply:
        raise NotImplementedError


class OpenAIsOnly(ReplayServer):
    async def messages(self, body: JsonObject, call: Call) -> ModelReply:
        raise NotImplementedError


class Blank(ReplayServer):
    async def turns(self, secret: str) -> TurnRecord:
        return TurnRecord(engine="text", turns=[])


class Guessing(ReplayServer):
    async def turns(self, secret: str) -> TurnRecord:
        record = await super().turns(secret)
        turns = [turn.model_copy(update={"prompt_ids": [1, 2]}) for turn in record.turns]
        return TurnRecord(engine="text", turns=turns)


class OpenModel(ReplayServer):
    async def turns(self, secret: str) -> TurnRecord:
        return TurnRecord(engine="text", turns=list(self.store.turns(secret)))


class HoardingModel(ReplayServer):
    async def forget(self, secret: str) -> None:
        return


class Startled(ReplayServer):
    async def turns(self, secret: str) -> TurnRecord:
        record = await super().turns(secret)
        if not record.turns:
            raise RequestError("there is no such rollout")
        return record


class Mixing(ReplayServer):
    seen: tuple[str, ...] = ()

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        self.seen = (*self.seen, call.path["secret"])
        return await super().responses(body, call)

    async def turns(self, secret: str) -> TurnRecord:
        every = [turn for one in dict.fromkeys(self.seen) for turn in (await super(Mixing, self).turns(one)).turns]
        return TurnRecord(engine="text", turns=every)


class PathOnly(ReplayServer):
    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        if "secret" not in call.path:
            raise RequestError("no rollout in the path")
        return await super().responses(body, call)


class PathOnlyMessages(ReplayServer):
    async def messages(self, body: JsonObject, call: Call) -> ModelReply:
        if "secret" not in call.path:
            raise RequestError("no rollout in the path")
        return await super().messages(body, call)


class Recording(OpenAIServer):
    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        path = {"secret": "ro_everybody", **call.path}
        return await super().responses(body, replace(call, path=path))


class Pedantic(ReplayServer):
    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        if set(body) - {"model", "input", "stream"}:
            raise RequestError("unknown keys")
        return await super().responses(body, call)


class Gruff(ReplayServer):
    def extend(self, app: FastAPI) -> None:
        @app.middleware("http")
        async def shrug(request: Request, forward: Callable[[Request], Awaitable[Response]]) -> Response:
            reply = await forward(request)
            return reply if reply.status_code < 400 else Response(b"{}", 500)


class WiredModel(ReplayServer):
    def extend(self, app: FastAPI) -> None:
        @app.middleware("http")
        async def empty(request: Request, forward: Callable[[Request], Awaitable[Response]]) -> Response:
            reply: Any = await forward(request)
            wire = orjson.loads(b"".join([chunk async for chunk in reply.body_iterator]))
            return Response(orjson.dumps({**wire, "output": []}), reply.status_code, media_type="application/json")


class CarelessModel(ReplayServer):
    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        folder = self.config.turn_store.folder
        assert folder is not None
        folder.joinpath(call.path["secret"]).touch()
        return await super().responses(body, call)


class Papering(OpenAIServer):
    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        try:
            return await super().responses(body, call)
        except InfraError:
            return make_response([], body, model="none")


class Hasty(OpenAIServer):
    def __init__(self, config: Any, **named: Any) -> None:
        super().__init__(config.model_copy(update={"attempts": 1}), **named)


class Nagging(OpenAIServer):
    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        try:
            return await super().responses(body, call)
        except RequestError:
            return await super().responses(body, call)


class LaxModelConfig(ReplayConfig):
    model_config = ConfigDict(extra="allow")


class LaxModel(ReplayServer):
    config_type = LaxModelConfig


class StreamingModel(OpenAIServer):
    """Streams as it should, through `change`."""

    def change(self, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        reply = await super().responses(body, call)
        return EventStream(self.change(reply.events)) if isinstance(reply, EventStream) else reply

    async def chat(self, body: JsonObject, call: Call) -> ModelReply:
        reply = await super().chat(body, call)
        return EventStream(self.change(reply.events)) if isinstance(reply, EventStream) else reply

    async def messages(self, body: JsonObject, call: Call) -> ModelReply:
        reply = await super().messages(body, call)
        return EventStream(self.change(reply.events)) if isinstance(reply, EventStream) else reply


class Dropping(StreamingModel):
    """Loses every event that holds `lost`."""

    lost = b""

    async def change(self, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for part in events:
            kept = [event for event in part.split(b"\n\n") if event and self.lost not in event]
            if kept:
                yield b"\n\n".join(kept) + b"\n\n"


class Beginless(Dropping):
    lost = b"event: response.created"


class Unclosed(Dropping):
    lost = b"event: response.output_item.done"


class Unstopped(Dropping):
    lost = b"event: message_stop"


class EndlessModel(Dropping):
    lost = b"[DONE]"


class SilentModel(Dropping):
    lost = b"event: response.failed"


class Buffering(StreamingModel):
    async def change(self, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        for part in [part async for part in events]:
            yield part


class Resampling(OpenAIServer):
    nonce = 0

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        self.nonce += 1
        return await super().responses({**body, "user": str(self.nonce)}, call)


class Parroting(OpenAIServer):
    told: dict[str, ModelReply]

    async def start(self) -> None:
        await super().start()
        self.told = {}

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        asked = str(body)
        if asked not in self.told:
            self.told[asked] = await super().responses(body, call)
        return self.told[asked]


class Unbounded(ReplayServer):
    async def set(self, secret: str, settings: RolloutSettings) -> None:
        return


class RepeatingModel(ReplayServer):
    async def transcript(self, secret: str, query: TurnSummaryQuery) -> TurnSummaries:
        return await super().transcript(secret, TurnSummaryQuery())


BROKEN: dict[str, type[ModelServer[Any]]] = {
    "a Responses call gets a standard response": Nameless,
    "a Chat call gets a standard completion": OneDialect,
    "each call of a rollout is one turn, as it was answered": Blank,
    "token ids are complete or absent, never guessed": Guessing,
    "reading the turns freezes the rollout": OpenModel,
    "a forgotten rollout has no turns": HoardingModel,
    "an unknown rollout has no turns, and that is no error": Startled,
    "rollouts at the same time do not mix": Mixing,
    "the API key names the rollout": PathOnly,
    "a call outside any rollout is not recorded": Recording,
    "a client may say more than the standard": Pedantic,
    "a body that is no JSON object is 400 and no turn": Gruff,
    "answers are the same directly, over ASGI and over HTTP": WiredModel,
    "the secret is written nowhere": CarelessModel,
    "a dead upstream is infra after a bounded number of tries, and no turn": Papering,
    "a failure that passes is tried again, as one turn": Hasty,
    "a refusal is not tried again": Nagging,
    "an unknown config key is refused by name": LaxModel,
    "the same request again is answered from the record": Resampling,
    "the same request at the same time is one turn": Resampling,
    "a request whose answer was continued is answered anew": Parroting,
    "a rollout makes as many calls as its settings say": Unbounded,
    "a rollout makes no call after its time": Unbounded,
    "what was said so far is told, and the rollout goes on": RepeatingModel,
    "a Messages call gets a standard message": OpenAIsOnly,
    "a Messages stream has the standard's events, in order": Unstopped,
    "the X-Api-Key names the rollout": PathOnlyMessages,
    "a Messages client gets errors in its own form": Gruff,
    "a Responses stream has the standard's events, in order": Beginless,
    "items and parts of a Responses stream are opened and closed": Unclosed,
    "a Chat stream has chunks, usage and [DONE]": EndlessModel,
    "a stream is one turn": Blank,
    "tokens stream as they come": Buffering,
    "a stream that breaks says so, and is no turn": SilentModel,
}
HELD_BY_THE_CLIENT = {"a hanging upstream is infra within the caller's deadline"}
"""A peer ends an overdue call itself; only a server that blocks its process could fail this."""
RunAll = Callable[[str], Awaitable[list[BehaviourResult]]]


@pytest.mark.slow
async def test_the_openai_server_passes_every_behaviour(run_all: RunAll) -> None:
    assert [result for result in await run_all("models_server:openai") if result.outcome != "passed"] == []


@pytest.mark.slow
async def test_a_server_that_takes_no_rollouts_calls_passes_what_is_left(run_all: RunAll) -> None:
    found = await run_all("models_server:genrm")
    assert [result for result in found if result.outcome == "failed"] == []
    assert {"a Responses call gets a standard response", "a refusal is not tried again"} <= {
        result.behaviour for result in found if result.outcome == "passed"
    }


@pytest.mark.slow
async def test_the_replay_server_passes_what_needs_no_upstream(run_all: RunAll) -> None:
    results = await run_all("models_server:replay")
    rest = [result for result in results if result.outcome != "passed"]
    assert {result.outcome for result in rest} == {"skipped"}
    assert all("has no upstream" in result.detail or "within rollouts only" in result.detail for result in rest)
    assert len(results) - len(rest) >= 18


@pytest.mark.parametrize("behaviour", BROKEN)
async def test_a_broken_server_fails(behaviour: str, outcome_of: Callable[..., Awaitable[BehaviourResult]]) -> None:
    result = await outcome_of(behaviour, "models_servers", BROKEN[behaviour], {})
    assert result.outcome == "failed", result
    assert result.detail


def test_every_behaviour_is_proven_to_fail() -> None:
    assert {behaviour.name for behaviour in suite_for("models_server")} == {*BROKEN, *HELD_BY_THE_CLIENT}
