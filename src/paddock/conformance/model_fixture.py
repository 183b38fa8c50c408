"""A model server under test in a fixture that makes it give a known answer.

A server with the route `PUT /r/<secret>/script` is scripted through it; one with a `base_url` in its config is put in
front of a scripted upstream; any other answers as it likes. An exact server with a `base_url` needs the engine that
runs there, and gets a relay before it, which fails on cue: its model has to end its answers by itself. Exact servers
sample at temperature 0, so that answers can be compared. Where its config says in which folder its turns are stored,
the check gives it a folder of its own.
"""

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import orjson

from paddock.conformance.behaviours import NotApplicable, expect
from paddock.conformance.target import ServerTarget
from paddock.errors import ConfigError
from paddock.http import (
    FORGET,
    PLAIN_RESPONSES,
    RESPONSES,
    SCRIPT,
    TURNS,
    Call,
    EventStream,
    Peer,
    ReplayScript,
    new_secret,
)
from paddock.server import Server
from paddock.server.app import build_app
from paddock.server.exact import ExactConfig
from paddock.testing.transports import Transport, over
from paddock.testing.upstream import Faults, FaultyRelay, ScriptedAnswer, ScriptedUpstream
from paddock.types import JsonObject, TurnRecord
from paddock.types.responses import message_item

ANSWER_TEXT = "One small step, and then another one."
SCRIPTED_TURNS = 8
FAST_FAILURE = {"attempts": 2, "first_retry_s": 1e-3, "max_retry_s": 1e-3, "retry_for_s": 0.0}
"""Keys that make a server give up soon, where its config has them."""
SCRIPTED_TIMEOUT_S = 2.0
"""Of a scripted upstream's answers; a real engine has the time that its config says."""


NO_ROLLOUT = ""
"""Stands in place of a secret where a call belongs to no rollout."""


class ModelFixture(NamedTuple):
    """The server under test, and the upstream behind it."""

    server: Server[Any]
    peer: Peer
    upstream: ScriptedUpstream | FaultyRelay | None
    folder: Path
    """The folder of its turns, if its config has a key for it."""

    @property
    def is_scripted(self) -> bool:
        return SCRIPT in self.server.handlers()

    @property
    def takes_rollouts(self) -> bool:
        return TURNS in self.server.handlers()

    async def open_rollout_if_any(self) -> str:
        """Return the secret of a new rollout; NO_ROLLOUT where the server takes no calls of rollouts."""
        return await self.open_rollout() if self.takes_rollouts else NO_ROLLOUT

    async def open_rollout(self) -> str:
        """Return the secret of a new rollout, for which the server has answers. NotApplicable: it takes no rollouts."""
        self._require_rollouts()
        secret = new_secret()
        if self.is_scripted:
            turns = [[message_item(ANSWER_TEXT)] for _ in range(SCRIPTED_TURNS)]
            await self.peer.call(SCRIPT, ReplayScript(turns=turns), Call(), secret=secret)
        return secret

    async def ask(self, secret: str, body: JsonObject | None = None, call: Call | None = None) -> JsonObject:
        """Make one call in the Responses dialect and return its answer."""
        request, context = question() if body is None else body, call or Call()
        if secret == NO_ROLLOUT:
            reply = await self.peer.call(PLAIN_RESPONSES, request, context)
        else:
            reply = await self.peer.call(RESPONSES, request, context, secret=secret)
        if isinstance(reply, EventStream):
            raise AssertionError("a stream came where a whole answer was asked for")
        return reply

    async def record(self, secret: str) -> TurnRecord:
        self._require_rollouts()
        return await self.peer.call(TURNS, {}, Call(), secret=secret)

    async def forget(self, secret: str) -> None:
        await self.peer.call(FORGET, {}, Call(), secret=secret)

    def _require_rollouts(self) -> None:
        if not self.takes_rollouts:
            raise NotApplicable("it takes no rollout's calls, and records nothing")

    async def http(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Send a POST through the server's app."""
        app = httpx.ASGITransport(build_app(self.server))
        async with httpx.AsyncClient(transport=app, base_url="http://target") as client:
            content = body if isinstance(body, bytes) else orjson.dumps(body)
            return await client.post(path, content=content, headers={"content-type": "application/json", **headers})

    def is_expected(self, text: str) -> bool:
        """Whether `text` is the scripted answer; of a server that can't be scripted, whether it is any text."""
        scripted = self.is_scripted or isinstance(self.upstream, ScriptedUpstream)
        return text == ANSWER_TEXT if scripted else bool(text)


@asynccontextmanager
async def model_fixture(
    target: ServerTarget,
    transport: Transport = "direct",
    *,
    faults: Faults | None = None,
    event_delay_s: float = 0.0,
    folder: Path | None = None,
) -> AsyncIterator[ModelFixture]:
    fields = target.cls.config_type.model_fields
    changes: dict[str, Any] = {key: value for key, value in FAST_FAILURE.items() if key in fields}
    async with AsyncExitStack() as stack:
        where = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="paddock-check-")))
        if "turn_store" in fields:
            changes["turn_store"] = {"folder": str(where)}
        upstream: ScriptedUpstream | FaultyRelay | None = None
        if issubclass(target.cls.config_type, ExactConfig):
            changes["sampling_overrides"] = {**target.block.get("sampling_overrides", {}), "temperature": 0}
            if given := target.block.get("base_url"):
                url = given if isinstance(given, str) else given[0]
                upstream = FaultyRelay(url.removesuffix("/v1"), faults=faults, event_delay_s=event_delay_s)
                changes["base_url"] = (await stack.enter_async_context(upstream)).url
        elif "base_url" in fields:
            upstream = ScriptedUpstream(ScriptedAnswer(ANSWER_TEXT), faults=faults, event_delay_s=event_delay_s)
            await stack.enter_async_context(upstream)
            changes |= {"base_url": upstream.url, "model": "scripted"}
            if "timeout_s" in fields:
                changes["timeout_s"] = SCRIPTED_TIMEOUT_S
        server = _build(target, changes)
        peers = await stack.enter_async_context(over(transport, server))
        if isinstance(upstream, FaultyRelay):
            upstream.arm()
        yield ModelFixture(server, peers["target"], upstream, where)


def require_upstream(fixture: ModelFixture) -> ScriptedUpstream | FaultyRelay:
    if fixture.upstream is None:
        raise NotApplicable("the server has no upstream: its config has no `base_url`")
    return fixture.upstream


def question(*, stream: bool = False, text: str = "What next?") -> JsonObject:
    """A request of the Responses dialect."""
    return {"model": "any", "input": [{"role": "user", "content": text}], **({"stream": True} if stream else {})}


def chat_question(*, stream: bool = False) -> JsonObject:
    body: JsonObject = {"model": "any", "messages": [{"role": "user", "content": "What next?"}]}
    return {**body, "stream": True, "stream_options": {"include_usage": True}} if stream else body


def messages_question(*, stream: bool = False) -> JsonObject:
    body: JsonObject = {"model": "any", "max_tokens": 64, "messages": [{"role": "user", "content": "What next?"}]}
    return {**body, "stream": True} if stream else body


class StreamEvent(NamedTuple):
    """One server-sent event."""

    name: str | None
    data: Any
    """Parsed JSON; the text `[DONE]` as it is."""


def read_events(text: str) -> list[StreamEvent]:
    """Server-sent events, strictly: each block has one `data` line and at most one `event` line."""
    events = []
    expect(text.endswith("\n\n"), "the stream does not end with an empty line")
    for block in text.removesuffix("\n\n").split("\n\n"):
        fields = [line.split(": ", 1) for line in block.split("\n") if not line.startswith(":")]
        if not fields:
            continue
        expect(all(len(field) == 2 and field[0] in ("event", "data") for field in fields), f"no event: {block[:200]!r}")
        data = [value for key, value in fields if key == "data"]
        names = [value for key, value in fields if key == "event"]
        expect(len(data) == 1 and len(names) <= 1, f"an event has one data line: {block[:200]!r}")
        events.append(
            StreamEvent(names[0] if names else None, data[0] if data[0] == "[DONE]" else orjson.loads(data[0]))
        )
    return events


def _build(target: ServerTarget, changes: dict[str, Any]) -> Server[Any]:
    try:
        return target.build(**changes)
    except ConfigError as error:
        raise NotApplicable(f"it can't be built for a check: {error.message}; give a config") from error
